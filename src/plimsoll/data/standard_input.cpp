#include "data/standard_input.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/spill_folder.h"
#include "codec/npy.h"
#include "data/rows/array_rows.h"
#include "data/rows/growing_array.h"
#include "data/rows/joined_rows.h"

namespace plimsoll::data {
namespace {

constexpr size_t kPieceBytes = 256 << 10;
constexpr const char* kName = "standard input";
constexpr int64_t kMostArrays = 65'536;
constexpr size_t kMostKinds = 64;    // so that they take little, whatever comes
constexpr int64_t kNothingYet = -1;  // in place of a size: what writes takes its time
constexpr int kWaitMilliseconds = 50;
constexpr int64_t kScalar = -1;  // the rows of an array without any dimension

// Arrays of one type of number and one shape of rows.
struct Kind {
  codec::NumberFormat format;
  std::vector<int64_t> row_shape;
  friend bool operator==(const Kind&, const Kind&) = default;
};

// What is kept of an array: streams have tens of thousands.
struct StreamArray {
  int64_t begin = 0;  // in the stream
  int64_t data_offset = 0;
  int64_t rows = 0;
  int64_t number = 0;  // in the stream, from 1
  size_t kind = 0;
};

struct Stream {
  std::shared_ptr<const codec::FileReader> file;
  std::vector<Kind> kinds;
};

std::string name_of(int64_t number) { return fmt::format("{}, array {}", kName, number); }

// The number of array `array`'s kind: one that came before, or a new one.
size_t number_of(Kind kind, int64_t array, std::vector<Kind>& kinds) {
  const auto known = std::ranges::find(kinds, kind);
  const auto number = static_cast<size_t>(known - kinds.begin());
  if (known != kinds.end()) return number;
  if (kinds.size() == kMostKinds) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected at most {} types of numbers and shapes of rows, received "
                            "another. Write all chunks alike.",
                            name_of(array), kMostKinds));
  }
  kinds.push_back(std::move(kind));
  return number;
}

std::shared_ptr<const codec::FileReader> reader_from(const codec::FileReader& file, int64_t begin,
                                                     int64_t number) {
  return std::make_shared<const codec::FileReader>(file.file(), file.offset() + begin,
                                                   file.size() - begin, name_of(number));
}

std::unique_ptr<RowSource> open_array(const Stream& stream, const StreamArray& array) {
  const Kind& kind = stream.kinds[array.kind];
  ArrayPlace place;
  place.file = reader_from(*stream.file, array.begin, array.number);
  place.format = kind.format;
  place.shape = kind.row_shape;
  if (array.rows != kScalar) place.shape.insert(place.shape.begin(), array.rows);
  place.data_offset = array.data_offset;
  return make_array_rows(place);
}

std::unique_ptr<RowSource> join(const std::shared_ptr<const Stream>& stream,
                                GrowingArray<StreamArray>&& arrays) {
  const size_t count = arrays.size();
  if (count == 1) return open_array(*stream, arrays[0]);
  arrays.shrink_to_fit();
  const Bytes held(static_cast<int64_t>(arrays.held_bytes()));
  const auto shared = std::make_shared<const GrowingArray<StreamArray>>(std::move(arrays));
  return join_rows(
      kName, count, [stream, shared](size_t i) { return open_array(*stream, (*shared)[i]); }, held);
}

// How many ranks write to the folder's file system.
int copies_in(const std::string& folder, Ranks* ranks) {
  struct stat place = {};
  if (ranks == nullptr) return 1;
  ::stat(folder.c_str(), &place);
  return count_alike(*ranks, hash_text(host_name(), static_cast<uint64_t>(place.st_dev)));
}

// How many bytes were read; 0: at the end.
int64_t read_piece(int descriptor, std::span<std::byte> piece) {
  pollfd ready{descriptor, POLLIN, 0};
  const int found = ::poll(&ready, 1, kWaitMilliseconds);
  if (found == 0 || (found < 0 && errno == EINTR)) return kNothingYet;
  const ssize_t got = ::read(descriptor, piece.data(), piece.size());
  if (got < 0 && errno == EINTR) return kNothingYet;
  if (got < 0) throw_io(kName, "read", errno);
  return got;
}

// The same, on ranks what the first one has read. They hear of it when nothing comes, too, so that
// none of them takes the first one for gone.
int64_t next_piece(int descriptor, std::span<std::byte> piece, Ranks* ranks) {
  if (ranks == nullptr) return read_piece(descriptor, piece);
  int64_t got = ranks->rank() == 0 ? read_piece(descriptor, piece) : 0;
  share_from(*ranks, 0, std::as_writable_bytes(std::span(&got, 1)));
  if (got > 0) share_from(*ranks, 0, piece.first(static_cast<size_t>(got)));
  return got;
}

}  // namespace

std::shared_ptr<const codec::FileReader> spool_input(int descriptor, const std::string& folder,
                                                     Ranks* ranks) {
  const int64_t most = free_space(folder).count() / 2 / copies_in(folder, ranks);
  auto file = std::make_shared<File>(File::unlinked(folder));
  std::vector<std::byte> piece(kPieceBytes);
  int64_t size = 0;
  while (true) {
    const int64_t got = next_piece(descriptor, piece, ranks);
    if (got == kNothingYet) continue;
    if (got == 0) break;
    if (got > most - size) {
      throw Error(ErrorKind::kIo, fmt::format("{}: expected at most {} (half of the free space in "
                                              "{}), received more. Name another --spill-dir.",
                                              kName, to_string(Bytes(most)), folder));
    }
    file->write_at(size, std::span(piece).first(static_cast<size_t>(got)));
    size += got;
  }
  return std::make_shared<const codec::FileReader>(std::move(file), 0, size, kName);
}

StreamSources open_stream(const std::shared_ptr<const codec::FileReader>& file, bool labels) {
  auto stream = std::make_shared<Stream>();
  stream->file = file;
  // All of them where there are no labels; else features and labels, in turn.
  std::array<GrowingArray<StreamArray>, 2> arrays;
  int64_t count = 0;
  for (int64_t begin = 0; begin < file->size(); ++count) {
    if (count == kMostArrays) {
      throw Error(
          ErrorKind::kData,
          fmt::format("{}: expected at most {} arrays, received more. Write more rows in each.",
                      name_of(count + 1), kMostArrays));
    }
    const auto rest = reader_from(*file, begin, count + 1);
    const codec::NpyHeader header = codec::read_npy_header(*rest);
    if (header.fortran_order && header.shape.size() > 1) {
      throw Error(ErrorKind::kData, rest->name() +
                                        ": expected C order, received Fortran order. Write "
                                        "np.ascontiguousarray(x).");
    }
    int64_t bytes = header.format.bytes;
    for (const int64_t extent : header.shape) bytes *= extent;
    StreamArray array{begin, header.data_offset, kScalar, count + 1, 0};
    Kind kind{header.format, header.shape};
    if (!header.shape.empty()) {
      array.rows = header.shape.front();
      kind.row_shape.erase(kind.row_shape.begin());
    }
    array.kind = number_of(std::move(kind), count + 1, stream->kinds);
    arrays[labels ? static_cast<size_t>(count % 2) : 0].push_back(array);
    begin += header.data_offset + bytes;
  }
  if (count == 0) {
    throw Error(ErrorKind::kData, std::string(kName) +
                                      ": expected arrays as np.save writes them, received "
                                      "nothing.");
  }
  StreamSources sources;
  if (labels && count > 1 && count % 2 != 0) {
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected x and y in turn, received {} arrays.", kName, count));
  }
  sources.features = join(stream, std::move(arrays[0]));
  if (!arrays[1].empty()) sources.labels = join(stream, std::move(arrays[1]));
  return sources;
}

}  // namespace plimsoll::data
