#include "data/standard_input.h"

#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "codec/npy.h"
#include "data/rows/array_rows.h"
#include "data/rows/joined_rows.h"

namespace plimsoll::data {
namespace {

constexpr size_t kPieceBytes = 256 << 10;
constexpr const char* kName = "standard input";
constexpr size_t kMostArrays = 65'536;
constexpr int64_t kBytesOfAPlace = 512;  // of an array's reader and shape

std::unique_ptr<RowSource> join(std::vector<ArrayPlace> places) {
  const size_t count = places.size();
  if (count == 1) return make_array_rows(places.front());
  const auto shared = std::make_shared<const std::vector<ArrayPlace>>(std::move(places));
  return join_rows(
      kName, count, [shared](size_t i) { return make_array_rows((*shared)[i]); },
      Bytes(static_cast<int64_t>(count) * kBytesOfAPlace));
}

}  // namespace

std::shared_ptr<const codec::FileReader> spool_input(int descriptor, const std::string& folder) {
  const int64_t most = free_space(folder).count() / 2;
  auto file = std::make_shared<File>(File::unlinked(folder));
  std::vector<std::byte> piece(kPieceBytes);
  int64_t size = 0;
  while (true) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_io(kName, "read", errno);
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
  std::vector<ArrayPlace> places;
  for (int64_t offset = 0; offset < file->size();) {
    const std::string name = fmt::format("{}, array {}", kName, places.size() + 1);
    auto rest = std::make_shared<const codec::FileReader>(file->file(), file->offset() + offset,
                                                          file->size() - offset, name);
    if (places.size() == kMostArrays) {
      throw Error(
          ErrorKind::kData,
          fmt::format("{}: expected at most {} arrays, received more. Write more rows in each.",
                      name, kMostArrays));
    }
    const codec::NpyHeader header = codec::read_npy_header(*rest);
    if (header.fortran_order && header.shape.size() > 1) {
      throw Error(ErrorKind::kData, name +
                                        ": expected C order, received Fortran order. Write "
                                        "np.ascontiguousarray(x).");
    }
    int64_t bytes = header.format.bytes;
    for (const int64_t extent : header.shape) bytes *= extent;
    places.push_back({std::move(rest), header.format, header.shape, header.data_offset, false});
    offset += header.data_offset + bytes;
  }
  if (places.empty()) {
    throw Error(ErrorKind::kData, std::string(kName) +
                                      ": expected arrays as np.save writes them, received "
                                      "nothing.");
  }
  StreamSources sources;
  if (!labels || places.size() == 1) {
    sources.features = join(std::move(places));
    return sources;
  }
  if (places.size() % 2 != 0) {
    throw Error(ErrorKind::kData, fmt::format("{}: expected x and y in turn, received {} arrays.",
                                              kName, places.size()));
  }
  std::vector<ArrayPlace> x;
  std::vector<ArrayPlace> y;
  for (size_t i = 0; i < places.size(); ++i) (i % 2 == 0 ? x : y).push_back(std::move(places[i]));
  sources.features = join(std::move(x));
  sources.labels = join(std::move(y));
  return sources;
}

}  // namespace plimsoll::data
