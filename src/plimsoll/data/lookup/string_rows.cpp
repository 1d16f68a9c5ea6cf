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

namespace plimsoll::data {
namespace {

constexpr int64_t kMostTextBytes = int64_t{1} << 20;
constexpr int64_t kPieceBytes = int64_t{64} << 10;
constexpr Bytes kDecoderBytes = 64_KiB;  // of chunks in HDF5

[[noreturn]] void refuse(const std::string& where, const std::string& expected,
                         const std::string& received, std::string_view next_step = "") {
  throw Error(ErrorKind::kData, fmt::format("{}: expected {}, received {}.{}{}", where, expected,
                                            received, next_step.empty() ? "" : " ", next_step));
}

void check_length(int64_t bytes, const StringSamples::Where& where) {
  if (bytes <= kMostTextBytes) return;
  refuse(where(), "a text of at most 1 MiB", to_string(Bytes(bytes)), "Cut it into several.");
}

void check_shape(const std::string& name, const std::vector<int64_t>& shape,
                 const InputLookup& lookup) {
  const bool empty = shape.empty() || std::ranges::find(shape, 0) != shape.end();
  if (empty) {
    refuse(name, "rows of strings", "an array of shape " + to_string(fixed_shape(shape)));
  }
  const int64_t width = fixed_shape(std::span(shape).subspan(1)).element_count(1);
  if (width != lookup.input_elements()) {
    refuse(name,
           fmt::format("samples of {} strings, as layer {} takes them", lookup.input_elements(),
                       lookup.layer),
           std::to_string(width));
  }
}

}  // namespace

StringSamples::StringSamples(std::shared_ptr<FieldIds> ids, const std::string& folder)
    : writer_(ids, folder),
      strings_(static_cast<size_t>(ids->lookup().input_elements())),
      views_(strings_.size()) {}

std::string& StringSamples::next(int64_t bytes, const Where& where) {
  check_length(bytes, where);
  PLIMSOLL_CHECK(place_ < strings_.size(), "a sample of more strings than its input takes");
  return strings_[place_++];
}

void StringSamples::add(const Where& where) {
  PLIMSOLL_CHECK(place_ == strings_.size(), "a sample of fewer strings than its input takes");
  place_ = 0;
  size_t held = 0;
  for (size_t i = 0; i < strings_.size(); ++i) {
    views_[i] = strings_[i];
    held += strings_[i].capacity() + sizeof(std::string) + sizeof(std::string_view);
  }
  most_ = std::max(most_, static_cast<int64_t>(held));
  writer_.add(views_, where);
}

LookedUpStrings look_up_files(const SampleFiles& files, const std::shared_ptr<FieldIds>& ids,
                              const std::string& spill_directory) {
  if (ids->lookup().input_elements() != 1) {
    throw Error(ErrorKind::kConfig,
                fmt::format("{}: expected a model that takes one text a sample, received one whose "
                            "layer {} takes {}. Write the texts to a table.",
                            files.path(), ids->lookup().layer, ids->lookup().input_elements()));
  }
  StringSamples samples(ids, choose_spill_folder(spill_directory));
  for (int64_t i = 0; i < files.count(); ++i) {
    const auto file = files.open(i);
    const auto where = [&] { return file->name(); };
    std::string& text = samples.next(file->size(), where);
    text.resize(static_cast<size_t>(file->size()));
    file->read_at(0, std::as_writable_bytes(std::span(text)));
    samples.add(where);
  }
  return {samples.finish(files.path()), samples.peak()};
}

LookedUpStrings look_up_strings(const codec::ByteReader& file, const codec::NpyStrings& array,
                                const std::shared_ptr<FieldIds>& ids,
                                const std::string& spill_directory) {
  check_shape(file.name(), array.shape, ids->lookup());
  if (array.fortran_order && array.shape.size() > 1) {
    refuse(file.name(), "strings in C order", "Fortran order", "Save np.ascontiguousarray(x).");
  }
  StringSamples samples(ids, choose_spill_folder(spill_directory));
  const int64_t count = array.shape.front() * samples.width();
  const int64_t together =
      std::clamp<int64_t>(kPieceBytes / std::max<int64_t>(array.bytes, 1), 1, count);
  std::vector<std::byte> piece(static_cast<size_t>(together * array.bytes));
  for (int64_t first = 0; first < count; first += together) {
    const int64_t now = std::min(together, count - first);
    const auto stored = std::span(piece).first(static_cast<size_t>(now * array.bytes));
    file.read_at(array.data_offset + first * array.bytes, stored);
    for (int64_t i = 0; i < now; ++i) {
      const int64_t row = (first + i) / samples.width();
      const auto where = [&] { return fmt::format("{}: row {}", file.name(), row); };
      std::string& text = samples.next(0, where);
      text.clear();
      codec::append_npy_string(
          array,
          stored.subspan(static_cast<size_t>(i * array.bytes), static_cast<size_t>(array.bytes)),
          text);
      check_length(std::ssize(text), where);
      if ((first + i) % samples.width() == samples.width() - 1) samples.add(where);
    }
  }
  return {samples.finish(file.name()), samples.peak() + Bytes(std::ssize(piece))};
}

LookedUpStrings look_up_strings(codec::Hdf5Dataset& dataset, const std::string& name,
                                const std::shared_ptr<FieldIds>& ids,
                                const std::string& spill_directory) {
  check_shape(name, dataset.info().shape, ids->lookup());
  StringSamples samples(ids, choose_spill_folder(spill_directory));
  int64_t count = 0;
  const int64_t reading = dataset.visit_strings([&](std::string_view string) {
    const auto where = [&] { return fmt::format("{}: row {}", name, count / samples.width()); };
    samples.next(std::ssize(string), where) = string;
    if (count % samples.width() == samples.width() - 1) samples.add(where);
    ++count;
  });
  const Bytes decoder = dataset.decodes() ? kDecoderBytes : Bytes();
  return {samples.finish(name),
          samples.peak() + Bytes(reading + dataset.resident_bytes()) + decoder};
}

}  // namespace plimsoll::data
