#include "codec/crc32c.h"

#include <array>

namespace plimsoll::codec {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  constexpr uint32_t kPolynomial = 0x82F63B78u;  // reflected
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? kPolynomial : 0);
    tables[0][i] = value;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t i = 0; i < 256; ++i) {
      const uint32_t before = tables[k - 1][i];
      tables[k][i] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

void Crc32c::add(std::span<const std::byte> bytes) {
  uint32_t crc = crc_;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {  // eight bytes by eight tables
    uint32_t next = 0;
    for (size_t k = 0; k < 8; ++k) {
      uint32_t value = std::to_integer<uint32_t>(bytes[i + k]);
      if (k < 4) value ^= (crc >> (8 * k)) & 0xFF;
      next ^= kTables[7 - k][value];
    }
    crc = next;
  }
  for (; i < bytes.size(); ++i) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<uint32_t>(bytes[i])) & 0xFF];
  }
  crc_ = crc;
}

uint32_t crc32c(std::span<const std::byte> bytes) {
  Crc32c sum;
  sum.add(bytes);
  return sum.value();
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) { return masked_crc32c(crc32c(bytes)); }

uint32_t masked_crc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

}  // namespace plimsoll::codec
