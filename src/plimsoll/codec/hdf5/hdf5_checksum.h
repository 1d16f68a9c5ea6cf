#pragma once

// The checksums of the HDF5 format. Internal to codec.

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::codec {

// Version 2 structures have this one: Bob Jenkins's lookup3 (hashlittle, start 0).
uint32_t hdf5_lookup3(std::span<const std::byte> bytes);
// The fletcher32 filter has this one. It takes pieces in order, all but the last one of an even
// size.
class Hdf5Fletcher32 {
 public:
  void add(std::span<const std::byte> bytes);
  uint32_t value() const;

 private:
  uint32_t first_ = 0;
  uint32_t second_ = 0;
};

}  // namespace plimsoll::codec
