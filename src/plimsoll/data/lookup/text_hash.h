#pragma once

// Two published hashes of byte strings, as TensorFlow's string operators compute them. Internal to
// data.
//
// `fingerprint64` is FarmHash's Fingerprint64 (G. Pike, Google 2014), which never changes between
// versions or processors; `keyed_hash64` is SipHash-2-4 (J.-P. Aumasson, D. J. Bernstein, 2012,
// https://www.131002.net/siphash/siphash.pdf). Words are read little-endian. Neither allocates.

#include <array>
#include <cstdint>
#include <string_view>

namespace plimsoll::data {

uint64_t fingerprint64(std::string_view text);

uint64_t keyed_hash64(std::string_view text, const std::array<uint64_t, 2>& key);

}  // namespace plimsoll::data
