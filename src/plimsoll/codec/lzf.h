#pragma once

// LZF, the compression that h5py calls "lzf" (its filter 32000).
//
//   000LLLLL                        L + 1 bytes follow as they are
//   LLLooooo oooooooo               L + 2 bytes again, from o + 1 bytes before the end
//   111ooooo LLLLLLLL oooooooo      L + 9 bytes again
//
// No distance passes 8,192 bytes: a stream needs no more of what it has written. Source:
// liblzf 3.6, lzf_d.c.

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/inflate.h"

namespace plimsoll::codec {

// Returns the number of bytes, at most destination.size(); -1 for what is no LZF or larger.
int64_t lzf_decompress_block(std::span<const std::byte> source, std::span<std::byte> destination);

// Hands the bytes to `consumer` in pieces of at most 64 KiB; returns their number, -1 for what is
// no LZF or more than `max_bytes`.
int64_t lzf_decompress_stream(const ByteReader& source, int64_t max_bytes,
                              const ByteConsumer& consumer);

}  // namespace plimsoll::codec
