#include "data/image_rows.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/cpu.h"
#include "base/error.h"
#include "base/shape.h"
#include "codec/image.h"
#include "codec/number_format.h"
#include "data/bilinear_resize.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kSlotBytes = 8 << 20;  // of all slots together, unless one needs more
constexpr int64_t kMostSlots = 64;
constexpr int kMostWorkers = 16;
// Of a worker: its stack and what the heap keeps between images.
constexpr Bytes kPerWorker = 112_KiB;
// Pages of the libraries that decode, and what the heap loses between them: measured.
constexpr Bytes kLibraries = 768_KiB;

struct ImageShape {
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;
  int64_t elements() const { return height * width * channels; }
};

// Decodes one image after another; one for each thread.
class SampleDecoder {
 public:
  SampleDecoder(const ImageFolder& folder, const ImageShape& shape)
      : folder_(folder), shape_(shape), resize_(shape.height, shape.width, shape.channels) {}

  void decode(int64_t row, float* out) {
    const auto file = codec::open_reader(folder_.file(row));
    codec::decode_image(
        *file, shape_.channels,
        [&](const codec::ImageInfo& info) { resize_.start(info.height, info.width, out); },
        [&](int64_t y, std::span<const uint8_t> line) { resize_.take_row(y, line); });
  }
  Bytes resident_bytes() const { return resize_.resident_bytes(); }

 private:
  const ImageFolder& folder_;
  ImageShape shape_;
  BilinearResize resize_;
};

class ImageRows final : public RowSource {
 public:
  ImageRows(std::shared_ptr<const ImageFolder> folder, const ImageShape& shape, Bytes working,
            int workers)
      : folder_(std::move(folder)),
        shape_(shape),
        row_shape_{shape.height, shape.width, shape.channels},
        origin_(folder_->path()),
        working_(working) {
    const int64_t bytes = shape.elements() * static_cast<int64_t>(sizeof(float));
    const int64_t slots = std::clamp<int64_t>(kSlotBytes / bytes, workers + 2, kMostSlots);
    slots_.resize(static_cast<size_t>(slots + 1));
    // Left untouched: pages are taken when images arrive.
    pixels_ = std::make_unique_for_overwrite<float[]>(slots_.size() *
                                                      static_cast<size_t>(shape.elements()));
    announced_.reserve(static_cast<size_t>(slots));
    for (int i = 0; i <= workers; ++i) decoders_.emplace_back(*folder_, shape_);
  }
  ~ImageRows() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int64_t row_count() const override { return folder_->count(); }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return DType::kFloat32; }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override {
    const auto slots = static_cast<int64_t>(slots_.size());
    const auto threads = static_cast<int64_t>(decoders_.size());
    return kLibraries + folder_->resident_bytes() +
           Bytes(slots * shape_.elements() * static_cast<int64_t>(sizeof(float))) +
           (decoders_.front().resident_bytes() + working_ + kPerWorker) * threads;
  }
  bool can_read_as(DType dtype) const override {
    return codec::can_convert(codec::native_format(DType::kFloat32), dtype);
  }
  int64_t lookahead() const override { return static_cast<int64_t>(slots_.size()) - 1; }

  void announce(std::span<const int64_t> rows) override {
    {
      const std::lock_guard lock(mutex_);
      const size_t count = std::min(rows.size(), slots_.size() - 1);
      announced_.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count));
      if (threads_.empty()) start_workers();
    }
    work_.notify_all();
  }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    auto* out = static_cast<std::byte*>(destination);
    const int64_t bytes = shape_.elements() * element_bytes(dtype).count();
    for (int64_t i = 0; i < count; ++i) read_row(first + i, dtype, out + i * bytes);
  }

 private:
  enum class State : uint8_t { kFree, kDecoding, kReady, kFailed };
  struct Slot {
    int64_t row = -1;
    State state = State::kFree;
    std::exception_ptr failure;
  };

  float* pixels(size_t slot) {
    return pixels_.get() + static_cast<int64_t>(slot) * shape_.elements();
  }
  Slot* find(int64_t row) {
    const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
      return slot.state != State::kFree && slot.row == row;
    });
    return found == slots_.end() ? nullptr : &*found;
  }
  bool is_announced(int64_t row) const {
    return std::find(announced_.begin(), announced_.end(), row) != announced_.end();
  }

  void read_row(int64_t row, DType dtype, std::byte* out) {
    std::unique_lock lock(mutex_);
    reading_ = row;  // keeps its slot until the next read
    Slot* slot = find(row);
    if (slot == nullptr) {
      slot = &slots_.back();  // the reader's own
      fill(lock, *slot, row, decoders_.back());
    } else {
      done_.wait(lock, [&] { return slot->state != State::kDecoding; });
    }
    if (slot->state == State::kFailed) std::rethrow_exception(slot->failure);
    const float* from = pixels(static_cast<size_t>(slot - slots_.data()));
    lock.unlock();
    const int64_t bad = codec::convert_numbers(codec::native_format(DType::kFloat32),
                                               reinterpret_cast<const std::byte*>(from), dtype, out,
                                               shape_.elements());
    if (bad < 0) return;
    throw Error(ErrorKind::kData, folder_->file(row) + ": expected pixels that " +
                                      std::string(to_string(dtype)) +
                                      " can hold, received fractions (the image was resized).");
  }

  // A slot for a worker: free, or of a row that is neither announced any more nor being read. Null:
  // all are in use.
  Slot* take_slot() {
    for (size_t i = 0; i + 1 < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (slot.state == State::kFree) return &slot;
      const bool wanted = slot.row == reading_ || is_announced(slot.row);
      if (slot.state != State::kDecoding && !wanted) return &slot;
    }
    return nullptr;
  }

  // Called with the lock; decodes without it.
  void fill(std::unique_lock<std::mutex>& lock, Slot& slot, int64_t row, SampleDecoder& decoder) {
    slot = {row, State::kDecoding, nullptr};
    lock.unlock();
    std::exception_ptr failure;
    try {
      decoder.decode(row, pixels(static_cast<size_t>(&slot - slots_.data())));
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    slot.failure = failure;
    slot.state = failure ? State::kFailed : State::kReady;
    done_.notify_all();
  }

  void start_workers() {
    for (size_t i = 0; i + 1 < decoders_.size(); ++i) {
      threads_.emplace_back([this, i] { work(decoders_[i]); });
    }
  }

  void work(SampleDecoder& decoder) {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      const auto row = std::find_if(announced_.begin(), announced_.end(),
                                    [&](int64_t wanted) { return find(wanted) == nullptr; });
      Slot* slot = row == announced_.end() ? nullptr : take_slot();
      if (slot == nullptr) {
        work_.wait(lock);
        continue;
      }
      fill(lock, *slot, *row, decoder);
    }
  }

  std::shared_ptr<const ImageFolder> folder_;
  ImageShape shape_;
  std::vector<int64_t> row_shape_;
  std::string origin_;
  Bytes working_;
  std::unique_ptr<float[]> pixels_;
  std::vector<SampleDecoder> decoders_;  // of the workers; the reader's own is the last

  std::mutex mutex_;
  std::condition_variable work_;  // a new announcement
  std::condition_variable done_;  // a slot was filled
  std::vector<Slot> slots_;       // the last one is the reader's
  std::vector<int64_t> announced_;
  int64_t reading_ = -1;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

class ClassRows final : public RowSource {
 public:
  ClassRows(std::shared_ptr<const ImageFolder> folder, bool one_hot)
      : folder_(std::move(folder)), origin_(folder_->path()) {
    if (one_hot) row_shape_ = {static_cast<int64_t>(folder_->classes().size())};
  }
  int64_t row_count() const override { return folder_->count(); }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return DType::kInt32; }
  const std::string& origin() const override { return origin_; }
  Bytes resident_bytes() const override { return Bytes(0); }  // the folder counts with the images
  bool can_read_as(DType dtype) const override {
    return codec::can_convert(codec::native_format(DType::kInt32), dtype);
  }
  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    auto* out = static_cast<std::byte*>(destination);
    const auto put = [&](int32_t value) {
      codec::convert_numbers(codec::native_format(DType::kInt32),
                             reinterpret_cast<const std::byte*>(&value), dtype, out, 1);
      out += element_bytes(dtype).count();
    };
    for (int64_t i = 0; i < count; ++i) {
      const int64_t number = folder_->class_of(first + i);
      if (row_shape_.empty()) {
        put(static_cast<int32_t>(number));
        continue;
      }
      for (int64_t k = 0; k < row_shape_.front(); ++k) put(k == number ? 1 : 0);
    }
  }

 private:
  std::shared_ptr<const ImageFolder> folder_;
  std::string origin_;
  std::vector<int64_t> row_shape_;
};

ImageShape shape_of(const std::string& path, const std::vector<int64_t>& sample) {
  const bool image = sample.size() == 3 && sample[0] > 0 && sample[1] > 0 &&
                     (sample[2] == 1 || sample[2] == 3 || sample[2] == 4);
  if (image) return {sample[0], sample[1], static_cast<int>(sample[2])};
  throw Error(ErrorKind::kConfig,
              path +
                  ": a folder of images needs a model that takes (height, width, 1, 3 or 4), "
                  "received one that takes " +
                  to_string(fixed_shape(sample)) + ".");
}

// Runs `body` for every image, on as many threads as there are decoders; the first error in the
// order of the images is thrown.
template <typename Body>
void for_all_images(const ImageFolder& folder, int threads, Body&& body) {
  std::vector<std::pair<int64_t, std::exception_ptr>> failures(static_cast<size_t>(threads));
  const auto run = [&](int thread) {
    for (int64_t i = thread; i < folder.count(); i += threads) {
      try {
        body(thread, i);
      } catch (...) {
        failures[static_cast<size_t>(thread)] = {i, std::current_exception()};
        return;
      }
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& other : others) other.join();
  std::erase_if(failures, [](const auto& failure) { return failure.second == nullptr; });
  if (failures.empty()) return;
  std::rethrow_exception(
      std::min_element(failures.begin(), failures.end(), [](const auto& a, const auto& b) {
        return a.first < b.first;
      })->second);
}

// Leaves out what cannot be decoded; their number.
int64_t drop_damaged(ImageFolder& folder, const ImageShape& shape, int threads) {
  std::vector<uint8_t> good(static_cast<size_t>(folder.count()), 1);  // a byte each: written by all
  std::vector<SampleDecoder> decoders(static_cast<size_t>(threads), SampleDecoder(folder, shape));
  std::vector<std::vector<float>> samples(static_cast<size_t>(threads));
  for_all_images(folder, threads, [&](int thread, int64_t i) {
    const auto own = static_cast<size_t>(thread);
    samples[own].resize(static_cast<size_t>(shape.elements()));
    try {
      decoders[own].decode(i, samples[own].data());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      good[static_cast<size_t>(i)] = 0;
    }
  });
  const auto dropped = std::count(good.begin(), good.end(), uint8_t{0});
  if (dropped == folder.count()) {
    throw Error(ErrorKind::kData,
                folder.path() + ": expected images, received damaged ones alone.");
  }
  folder.retain(std::vector<bool>(good.begin(), good.end()));
  return dropped;
}

// The most that decoding one of the images holds, a row of it included.
Bytes working_bytes(const ImageFolder& folder, const ImageShape& shape, int threads) {
  std::vector<Bytes> most(static_cast<size_t>(threads));
  for_all_images(folder, threads, [&](int thread, int64_t i) {
    const codec::ImageInfo info = codec::read_image_info(*codec::open_reader(folder.file(i)));
    Bytes& own = most[static_cast<size_t>(thread)];
    own = max(own, info.working_bytes + Bytes(2 * info.width * shape.channels));
  });
  return *std::max_element(most.begin(), most.end());
}

}  // namespace

ImageSources open_images(const std::string& path, const std::vector<std::string>* classes,
                         const DatasetOptions& options) {
  const ImageShape shape = shape_of(path, options.sample_shape);
  auto folder = std::make_shared<ImageFolder>(path, classes);
  const int threads = std::clamp(
      options.threads > 0 ? options.threads : read_cpu_info().default_threads, 1, kMostWorkers);
  ImageSources sources;
  if (options.skip_damaged) sources.skipped = drop_damaged(*folder, shape, threads);
  const Bytes working = working_bytes(*folder, shape, threads);
  const auto class_count = static_cast<int64_t>(folder->classes().size());
  sources.folder = folder;
  sources.images = std::make_unique<ImageRows>(folder, shape, working, threads);
  sources.labels = std::make_unique<ClassRows>(
      folder, class_count > 1 && options.target_elements == class_count);
  return sources;
}

}  // namespace plimsoll::data
