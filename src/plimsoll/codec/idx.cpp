#include "codec/idx.h"

#include <array>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/format.h"

namespace plimsoll::codec {
namespace {

using Kind = NumberFormat::Kind;

std::optional<NumberFormat> format_of(std::byte type) {
  switch (std::to_integer<int>(type)) {
    case 0x08:
      return NumberFormat{Kind::kUnsigned, 1, false};
    case 0x09:
      return NumberFormat{Kind::kSigned, 1, false};
    case 0x0B:
      return NumberFormat{Kind::kSigned, 2, true};
    case 0x0C:
      return NumberFormat{Kind::kSigned, 4, true};
    case 0x0D:
      return NumberFormat{Kind::kFloat, 4, true};
    case 0x0E:
      return NumberFormat{Kind::kFloat, 8, true};
    default:
      return std::nullopt;
  }
}

// The header, whatever the file's size; nothing where it is none.
std::optional<IdxHeader> parse(const ByteReader& file) {
  std::array<std::byte, 4> magic;
  if (file.size() < 8) return std::nullopt;
  file.read_at(0, magic);
  const int rank = std::to_integer<int>(magic[3]);
  const std::optional<NumberFormat> format = format_of(magic[2]);
  constexpr int kMaxRank = 32;
  const bool header = magic[0] == std::byte{0} && magic[1] == std::byte{0} && format && rank >= 1 &&
                      rank <= kMaxRank && file.size() >= 4 + 4 * rank;
  if (!header) return std::nullopt;
  IdxHeader result;
  result.format = *format;
  for (int i = 0; i < rank; ++i) {
    std::array<std::byte, 4> extent;
    file.read_at(4 + 4 * i, extent);
    int64_t value = 0;
    for (std::byte b : extent) value = value * 256 + std::to_integer<int64_t>(b);
    result.shape.push_back(value);
  }
  result.data_offset = 4 + 4 * rank;
  return result;
}

// Bytes of the elements; nothing above 2^63.
std::optional<int64_t> element_bytes_of(const IdxHeader& header) {
  int64_t bytes = header.format.bytes;
  for (int64_t extent : header.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace

bool looks_like_idx(const ByteReader& file) {
  const std::optional<IdxHeader> header = parse(file);
  if (!header) return false;
  const std::optional<int64_t> bytes = element_bytes_of(*header);
  return bytes && *bytes <= file.size() - header->data_offset;
}

IdxHeader read_idx_header(const ByteReader& file) {
  std::optional<IdxHeader> header = parse(file);
  if (!header) {
    throw Error(ErrorKind::kData, file.name() +
                                      ": expected an IDX file, received something that does not "
                                      "begin as one.");
  }
  const std::optional<int64_t> bytes = element_bytes_of(*header);
  const int64_t present = file.size() - header->data_offset;
  if (!bytes || *bytes != present) {
    throw Error(
        ErrorKind::kData,
        fmt::format("{}: expected {} bytes of elements, as its header "
                    "says, received {}. Fetch the file again.",
                    file.name(), bytes ? std::to_string(*bytes) : std::string("more than 2^63"),
                    present));
  }
  return *std::move(header);
}

}  // namespace plimsoll::codec
