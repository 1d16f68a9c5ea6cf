#pragma once

// The checksums of the HDF5 format. Internal to codec.

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::codec {

// Of version 2 structures: Bob Jenkins's lookup3 (hashlittle, start 0).
uint32_t hdf5_lookup3(std::span<const std::byte> bytes);
// Of the fletcher32 filter.
uint32_t hdf5_fletcher32(std::span<const std::byte> bytes);

}  // namespace plimsoll::codec
