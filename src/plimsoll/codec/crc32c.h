#pragma once

// CRC-32C (Castagnoli), and TensorFlow's masked form of it: the checksum of record files.
//
// Source: RFC 3720, appendix B.4; tensorflow/core/lib/hash/crc32c.h.

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::codec {

uint32_t crc32c(std::span<const std::byte> bytes);
// The same of pieces in order.
class Crc32c {
 public:
  void add(std::span<const std::byte> bytes);
  uint32_t value() const { return ~crc_; }

 private:
  uint32_t crc_ = ~0u;
};
// Rotated and shifted, so that the checksum of data that hold checksums is not a simple one.
uint32_t masked_crc32c(std::span<const std::byte> bytes);
uint32_t masked_crc32c(uint32_t crc);

}  // namespace plimsoll::codec
