#include "data/rows/decoded_rows.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/accounted.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/threads/fork.h"
#include "codec/image/image.h"
#include "codec/number_format.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kMostSlots = 64;
constexpr int kMostWorkers = 16;
// What a worker takes: its stack and what the heap keeps between images.
constexpr Bytes kPerWorker = 112_KiB;
// Pages of the libraries that decode, those of errors, and what the heap loses between them: the
// most that was measured.
constexpr Bytes kLibraries = 1_MiB;

// Decoded samples of so many elements that there is room for, one of them the reader's.
int64_t slot_count(int64_t elements, const Decoding& decoding) {
  const int64_t bytes = elements * static_cast<int64_t>(sizeof(float));
  const int64_t ahead =
      std::clamp<int64_t>(decoding.slots.count() / bytes, decoding.threads + 2, kMostSlots);
  return std::min(ahead, decoding.samples) + 1;
}

class DecodedRows final : public RowSource {
 public:
  DecodedRows(std::shared_ptr<const SampleFiles> files, std::vector<int64_t> row_shape,
              const MakeDecoder& make, const Decoding& decoding)
      : files_(std::move(files)),
        row_shape_(std::move(row_shape)),
        elements_(fixed_shape(row_shape_).element_count(1)),
        origin_(files_->path()),
        decoding_(decoding) {
    decoding_.samples = std::min(decoding_.samples, std::max<int64_t>(files_->count(), 1));
    slots_.resize(static_cast<size_t>(slot_count(elements_, decoding_)));
    // Left untouched: pages are taken when samples arrive.
    values_ =
        std::make_unique_for_overwrite<float[]>(slots_.size() * static_cast<size_t>(elements_));
    announced_.reserve(slots_.size() - 1);
    for (int i = 0; i <= decoding.threads; ++i) decoders_.push_back(make());
  }
  ~DecodedRows() override {
    if (is_child_without_threads()) return;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    work_.notify_all();
    threads_.join();
  }

  int64_t row_count() const override { return files_->count(); }
  const std::vector<int64_t>& row_shape() const override { return row_shape_; }
  DType stored_dtype() const override { return DType::kFloat32; }
  const std::string& origin() const override { return origin_; }
  std::string name_of(int64_t row) const override { return files_->file(row); }
  Bytes resident_bytes() const override {
    return files_->resident_bytes() +
           decoded_bytes(elements_, decoders_.front()->resident_bytes(), decoding_);
  }
  Bytes opened_bytes() const override { return files_->resident_bytes(); }
  bool can_read_as(DType dtype) const override {
    return codec::can_convert(codec::native_format(DType::kFloat32), dtype);
  }
  int64_t lookahead() const override { return static_cast<int64_t>(slots_.size()) - 1; }

  void announce(std::span<const int64_t> rows) override {
    refuse_in_child("read");
    {
      const std::lock_guard lock(mutex_);
      const size_t count = std::min(rows.size(), slots_.size() - 1);
      announced_.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count));
      if (threads_.empty()) start_workers();
    }
    work_.notify_all();
  }

  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    refuse_in_child("read");
    auto* out = static_cast<std::byte*>(destination);
    const int64_t bytes = elements_ * element_bytes(dtype).count();
    for (int64_t i = 0; i < count; ++i) read_row(first + i, dtype, out + i * bytes);
  }

 private:
  enum class State : uint8_t { kFree, kDecoding, kReady, kFailed };
  struct Slot {
    int64_t row = -1;
    State state = State::kFree;
    std::exception_ptr failure;
  };

  float* values_of(size_t slot) { return values_.get() + static_cast<int64_t>(slot) * elements_; }
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
      fill(lock, *slot, row, *decoders_.back());
    } else {
      done_.wait(lock, [&] { return slot->state != State::kDecoding; });
    }
    if (slot->state == State::kFailed) std::rethrow_exception(slot->failure);
    const float* from = values_of(static_cast<size_t>(slot - slots_.data()));
    lock.unlock();
    const int64_t bad =
        codec::convert_numbers(codec::native_format(DType::kFloat32),
                               reinterpret_cast<const std::byte*>(from), dtype, out, elements_);
    if (bad < 0) return;
    throw Error(ErrorKind::kData, files_->file(row) + ": expected pixels that " +
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
      decoder.decode(*files_->open(row), values_of(static_cast<size_t>(&slot - slots_.data())));
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
      threads_.start([this, i] { work(*decoders_[i]); });
    }
  }

  void work(SampleDecoder& decoder) {
    const MemoryTag tag(MemoryPart::kData);
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

  std::shared_ptr<const SampleFiles> files_;
  std::vector<int64_t> row_shape_;
  int64_t elements_;
  std::string origin_;
  Decoding decoding_;
  std::unique_ptr<float[]> values_;
  std::vector<std::unique_ptr<SampleDecoder>>
      decoders_;  // of the workers; the reader's own is the last

  std::mutex mutex_;
  Condition work_;           // a new announcement
  Condition done_;           // a slot was filled
  std::vector<Slot> slots_;  // the last one is the reader's
  std::vector<int64_t> announced_;
  int64_t reading_ = -1;
  bool stop_ = false;
  Threads threads_;
};

// Runs `body` for every image, on as many threads as there are decoders; the first error in the
// order of the images is thrown.
template <typename Body>
void for_all_images(const SampleFiles& files, int threads, Body&& body) {
  std::vector<std::pair<int64_t, std::exception_ptr>> failures(static_cast<size_t>(threads));
  const auto run = [&](int thread) {
    const MemoryTag tag(MemoryPart::kData);
    for (int64_t i = thread; i < files.count(); i += threads) {
      try {
        body(thread, i);
      } catch (...) {
        failures[static_cast<size_t>(thread)] = {i, std::current_exception()};
        return;
      }
    }
  };
  Threads others;
  for (int thread = 1; thread < threads; ++thread) others.start([&run, thread] { run(thread); });
  run(0);
  others.join();
  std::erase_if(failures, [](const auto& failure) { return failure.second == nullptr; });
  if (failures.empty()) return;
  std::rethrow_exception(
      std::min_element(failures.begin(), failures.end(), [](const auto& a, const auto& b) {
        return a.first < b.first;
      })->second);
}

}  // namespace

int decoding_threads(int asked) {
  return std::clamp(asked > 0 ? asked : read_cpu_info().default_threads, 1, kMostWorkers);
}

ImageFacts read_headers(const SampleFiles& files, int channels, int64_t height, int64_t width,
                        int threads) {
  std::vector<ImageFacts> parts(static_cast<size_t>(threads), {Bytes(), true});
  for_all_images(files, threads, [&](int thread, int64_t i) {
    const codec::ImageInfo info = codec::read_image_info(*files.open(i));
    ImageFacts& own = parts[static_cast<size_t>(thread)];
    own.working = max(own.working, info.working_bytes + Bytes(2 * info.width * channels));
    own.exact_size = own.exact_size && info.height == height && info.width == width;
  });
  ImageFacts all = parts.front();
  for (const ImageFacts& own : parts) {
    all.working = max(all.working, own.working);
    all.exact_size = all.exact_size && own.exact_size;
  }
  return all;
}

std::vector<bool> find_sound(const SampleFiles& files, const MakeDecoder& make, int64_t elements,
                             int threads) {
  std::vector<uint8_t> good(static_cast<size_t>(files.count()), 1);  // a byte each: written by all
  std::vector<std::unique_ptr<SampleDecoder>> decoders;
  decoders.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) decoders.push_back(make());
  std::vector<std::vector<float>> samples(static_cast<size_t>(threads));
  for_all_images(files, threads, [&](int thread, int64_t i) {
    const auto own = static_cast<size_t>(thread);
    samples[own].resize(static_cast<size_t>(elements));
    try {
      decoders[own]->decode(*files.open(i), samples[own].data());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      good[static_cast<size_t>(i)] = 0;
    }
  });
  return {good.begin(), good.end()};
}

Bytes decoded_bytes(int64_t elements, Bytes decoder, const Decoding& decoding) {
  const int64_t values = slot_count(elements, decoding) * elements;
  return kLibraries + Bytes(values * static_cast<int64_t>(sizeof(float))) +
         (decoder + decoding.working + kPerWorker) * (decoding.threads + 1);
}

std::unique_ptr<RowSource> decoded_rows(std::shared_ptr<const SampleFiles> files,
                                        std::vector<int64_t> row_shape, const MakeDecoder& make,
                                        const Decoding& decoding) {
  return std::make_unique<DecodedRows>(std::move(files), std::move(row_shape), make, decoding);
}

}  // namespace plimsoll::data
