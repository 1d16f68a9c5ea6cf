#pragma once

// JSON text to and from layers::Config, within bounds.
//
// Text comes from untrusted files: its size, its depth and the numbers of its values and keys are
// bounded, a key that occurs twice is refused, and parsing takes no stack that grows with the
// text. Bounds are more than large models need (NASNetLarge: 1,041 layers, 1.0 MB, 61,795 values,
// depth 12; a GPT of 162 million weights whose positions are numbers in the structure: 4.4 MB,
// 210,000 values). Objects
// keep the order of their keys; integers stay integers and fractions keep every bit, so that a file
// round-trips.

#include <cstdint>
#include <string>
#include <string_view>

#include "codec/byte_reader.h"
#include "layers/config/config.h"

namespace plimsoll::formats {

constexpr int64_t kMaxJsonBytes = int64_t{8} << 20;
constexpr int64_t kMaxJsonValues = int64_t{1} << 18;
constexpr int kMaxJsonDepth = 100;
constexpr int64_t kMaxJsonKeys = 4096;  // of one object

// `origin` names the text in messages. Throws kModel. Integers beyond 63 bits become doubles; NaN
// and Infinity, which Python writes, are refused by the name of the layer, optimizer or loss that
// has them.
layers::Config parse_json(std::string_view text, const std::string& origin);

// As Python's json.dumps prints it ("1e-07", "0.5", "1.0"), indented by `indent` blanks, or on one
// line where that is 0.
std::string print_json(const layers::Config& value, int indent);
// The same on one line, in pieces: the text of a large model is never in memory whole.
void print_json(const layers::Config& value, codec::ByteSink& sink);

}  // namespace plimsoll::formats
