#pragma once

// Samples decoded from files, each a pure function of its own, ahead of their use on threads.
//
//   announced rows ──> workers ──> slots (decoded samples, a fixed number) ──> read()
//
// What read() gives depends on neither threads nor slots: a row that is in no slot is decoded by
// the reader itself. Slots hold rows of the last announcement only. All buffers are made at the
// start and counted; what a decoder takes beside them is bounded by the largest of the files,
// whose header was read. Errors of a worker are thrown by the read of that row. Internal to data.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "data/rows/row_source.h"
#include "data/rows/sample_files.h"

namespace plimsoll::data {

// Decodes one file after another; one for each thread.
class SampleDecoder {
 public:
  virtual ~SampleDecoder() = default;
  // Writes all elements of a sample. Throws kData or kIo naming the file.
  virtual void decode(const codec::FileReader& file, float* out) = 0;
  virtual Bytes resident_bytes() const = 0;
};
using MakeDecoder = std::function<std::unique_ptr<SampleDecoder>()>;

// Threads that decode: as many as asked for, or as the process may use.
int decoding_threads(int asked);

// What the headers of all images say.
struct ImageFacts {
  Bytes working;            // the most that decoding one of them holds, a row of it included
  bool exact_size = false;  // all are of the size that was asked about
};
ImageFacts read_headers(const SampleFiles& files, int channels, int64_t height, int64_t width,
                        int threads);

// Whether each file can be decoded; decodes all of them.
std::vector<bool> find_sound(const SampleFiles& files, const MakeDecoder& make, int64_t elements,
                             int threads);

// What decoding holds beside the row sources' own buffers.
struct Decoding {
  Bytes working;  // of one file
  int threads = 1;
  Bytes slots = 8_MiB;  // of all of them together, unless one needs more
  // No more of them are decoded ahead.
  int64_t samples = std::numeric_limits<int64_t>::max();
};

// What rows of so many elements hold beside the files' own tables, where each decoder takes
// `decoder` beside what it works in.
Bytes decoded_bytes(int64_t elements, Bytes decoder, const Decoding& decoding);

// Samples of `row_shape` of the files, in its order.
std::unique_ptr<RowSource> decoded_rows(std::shared_ptr<const SampleFiles> files,
                                        std::vector<int64_t> row_shape, const MakeDecoder& make,
                                        const Decoding& decoding);

}  // namespace plimsoll::data
