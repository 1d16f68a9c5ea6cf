#include "data/any_source.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "data/lookup/field_ids.h"
#include "data/rows/decoded_rows.h"

namespace plimsoll::data {
namespace {

// Chunks that are kept decoded (codec/hdf5/hdf5_chunks.cpp), staging and the decoder's own.
constexpr Bytes kKeptChunks = 4_MiB + 256_KiB;
// The stored, inflated and unshuffled form of one: of features as large as one in memory may be, of
// labels as large as their writer makes them by itself.
constexpr Bytes kFeatureChunk = 3_MiB;
constexpr Bytes kLabelChunk = 384_KiB;
constexpr int64_t kSmallLabel = 1024;  // numbers

// Decoding a row after another, of up to 4,096 pixels; tables of bilinear resizing.
constexpr Bytes kDecoding = 768_KiB;
constexpr int64_t kResizingColumn = 64;
// Names of some 50,000 files.
constexpr Bytes kNames = 2_MiB;
// A tile of an array in Fortran order, or the words of a text while they are counted.
constexpr Bytes kOpening = 4_MiB;

int64_t elements_of(const Port& port) {
  const int64_t count = std::accumulate(port.sample_shape.begin(), port.sample_shape.end(),
                                        int64_t{1}, std::multiplies<>());
  return std::max<int64_t>(count, 1);
}

bool is_image(const Port& port) {
  if (port.sample_shape.size() != 3) return false;
  const int64_t channels = port.sample_shape[2];
  return channels == 1 || channels == 3 || channels == 4;
}

Bytes array_bytes(const Port& port, bool label) {
  const bool small = label && (port.class_numbers || elements_of(port) <= kSmallLabel);
  return kKeptChunks + (small ? kLabelChunk : kFeatureChunk);
}

Bytes image_bytes(const Port& port, int threads) {
  Decoding decoding;
  decoding.working = kDecoding;
  decoding.threads = threads;
  const Bytes resizing(kResizingColumn * (port.sample_shape[0] + port.sample_shape[1]) +
                       8 * port.sample_shape[1] * port.sample_shape[2]);
  return decoded_bytes(elements_of(port), resizing, decoding);
}

// What a table takes of an input that the model looks up: its vocabulary, and a row at a time.
Bytes lookup_bytes(const Port& port) {
  if (port.lookup == nullptr) return {};
  const int64_t row = elements_of(port) * static_cast<int64_t>(sizeof(double));
  return Bytes(FieldIds::bytes_for(*port.lookup) + row);
}

}  // namespace

AnySource largest_usual_source(std::span<const Port> inputs, std::span<const Port> outputs,
                               int threads) {
  const int decoding = decoding_threads(threads);
  Bytes arrays;
  Bytes images;
  bool folders = !inputs.empty();
  for (const Port& port : inputs) {
    arrays += array_bytes(port, false);
    folders = folders && is_image(port);
    if (folders) images += image_bytes(port, decoding);
  }
  for (const Port& port : outputs) {
    arrays += array_bytes(port, true);
    // Masks are images too; classes are the names of folders.
    if (folders && port.sample_shape.size() == 3) images += image_bytes(port, decoding);
  }
  AnySource source{arrays, {}, kOpening};
  if (folders) {
    source.opened = kNames;
    source.held = max(arrays, images + kNames);
  }
  for (const Port& port : inputs) {
    source.held += lookup_bytes(port);
    source.opened += lookup_bytes(port);
  }
  return source;
}

AnySource largest_array_source(std::span<const Port> inputs, std::span<const Port> outputs) {
  constexpr Bytes kArray = 256_KiB;  // small ones are kept whole, of others a piece is converted
  return {kArray * std::ssize(inputs) + kArray * std::ssize(outputs), {}, {}};
}

}  // namespace plimsoll::data
