#include "data/lookup/string_rows.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "base/spill_folder.h"
#include "data/lookup/looked_up_rows.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kMostTextBytes = int64_t{1} << 20;
constexpr int64_t kPieceBytes = int64_t{64} << 10;

[[noreturn]] void refuse(const std::string& where, const std::string& expected,
                         const std::string& received, std::string_view next_step = "") {
  throw Error(ErrorKind::kData, fmt::format("{}: expected {}, received {}.{}{}", where, expected,
                                            received, next_step.empty() ? "" : " ", next_step));
}

// Samples of strings that are put into memory of their own one by one.
class Sample {
 public:
  explicit Sample(size_t count) : strings_(count), views_(count) {}

  std::string& operator[](size_t index) { return strings_[index]; }
  const std::vector<std::string_view>& views() {
    for (size_t i = 0; i < strings_.size(); ++i) views_[i] = strings_[i];
    return views_;
  }
  int64_t held_bytes() const {
    int64_t bytes = 0;
    for (const std::string& string : strings_) {
      bytes +=
          static_cast<int64_t>(string.capacity() + sizeof(std::string) + sizeof(std::string_view));
    }
    return bytes;
  }

 private:
  std::vector<std::string> strings_;
  std::vector<std::string_view> views_;
};

void check_length(const std::string& where, int64_t bytes) {
  if (bytes <= kMostTextBytes) return;
  refuse(where, "a text of at most 1 MiB", to_string(Bytes(bytes)), "Cut it into several.");
}

void check_strings(const codec::ByteReader& file, const codec::NpyStrings& array,
                   const InputLookup& lookup) {
  const std::vector<int64_t>& shape = array.shape;
  const bool empty = shape.empty() || std::ranges::find(shape, 0) != shape.end();
  if (empty) {
    refuse(file.name(), "rows of strings", "an array of shape " + to_string(fixed_shape(shape)));
  }
  if (array.fortran_order && shape.size() > 1) {
    refuse(file.name(), "strings in C order", "Fortran order", "Save np.ascontiguousarray(x).");
  }
  const int64_t width = fixed_shape(std::span(shape).subspan(1)).element_count(1);
  if (width != lookup.input_elements()) {
    refuse(file.name(),
           fmt::format("samples of {} strings, as layer {} takes them", lookup.input_elements(),
                       lookup.layer),
           std::to_string(width));
  }
}

}  // namespace

LookedUpStrings look_up_files(const SampleFiles& files, const std::shared_ptr<FieldIds>& ids,
                              const std::string& spill_directory) {
  if (ids->lookup().input_elements() != 1) {
    throw Error(ErrorKind::kConfig,
                fmt::format("{}: expected a model that takes one text a sample, received one whose "
                            "layer {} takes {}. Write the texts to a table.",
                            files.path(), ids->lookup().layer, ids->lookup().input_elements()));
  }
  TokenWriter writer(ids, choose_spill_folder(spill_directory));
  Sample text(1);
  for (int64_t i = 0; i < files.count(); ++i) {
    const auto file = files.open(i);
    check_length(file->name(), file->size());
    text[0].resize(static_cast<size_t>(file->size()));
    file->read_at(0, std::as_writable_bytes(std::span(text[0])));
    writer.add(text.views(), [&] { return file->name(); });
  }
  const Bytes peak(writer.peak_bytes() + text.held_bytes());
  return {writer.finish(files.path()), peak};
}

LookedUpStrings look_up_strings(const codec::ByteReader& file, const codec::NpyStrings& array,
                                const std::shared_ptr<FieldIds>& ids,
                                const std::string& spill_directory) {
  check_strings(file, array, ids->lookup());
  const int64_t width = ids->lookup().input_elements();
  const int64_t count = array.shape.front() * width;
  const int64_t together =
      std::clamp<int64_t>(kPieceBytes / std::max<int64_t>(array.bytes, 1), 1, count);
  std::vector<std::byte> piece(static_cast<size_t>(together * array.bytes));
  TokenWriter writer(ids, choose_spill_folder(spill_directory));
  Sample sample(static_cast<size_t>(width));
  int64_t most = 0;
  for (int64_t first = 0; first < count; first += together) {
    const int64_t now = std::min(together, count - first);
    const auto stored = std::span(piece).first(static_cast<size_t>(now * array.bytes));
    file.read_at(array.data_offset + first * array.bytes, stored);
    for (int64_t i = 0; i < now; ++i) {
      const int64_t row = (first + i) / width;
      const auto where = [&] { return fmt::format("{}: row {}", file.name(), row); };
      std::string& text = sample[static_cast<size_t>((first + i) % width)];
      text.clear();
      codec::append_npy_string(
          array,
          stored.subspan(static_cast<size_t>(i * array.bytes), static_cast<size_t>(array.bytes)),
          text);
      if (std::ssize(text) > kMostTextBytes) check_length(where(), std::ssize(text));
      if ((first + i) % width != width - 1) continue;
      writer.add(sample.views(), where);
      most = std::max(most, sample.held_bytes());
    }
  }
  const Bytes peak(writer.peak_bytes() + most + std::ssize(piece));
  return {writer.finish(file.name()), peak};
}

}  // namespace plimsoll::data
