#pragma once

// Whether samples have the shape that a model's input takes.
//
// Numbers alone do not say which way they lie: images with their channels first have as many as the
// input takes. So shapes must agree, but for dimensions of 1; samples that are flat (a table's row,
// a list of a record) fill any shape in order, and a flat input takes samples of any shape so.

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace plimsoll::data {

// kData: samples of another shape than the model's input; whoever knows the model's file may name
// the command that shows its inputs.
class WrongShape final : public Error {
 public:
  explicit WrongShape(std::string message) : Error(ErrorKind::kData, std::move(message)) {}
};

// The same, dimensions of 1 aside.
bool is_same_shape(const std::vector<int64_t>& left, const std::vector<int64_t>& right);
// One row of numbers, dimensions of 1 aside.
bool is_flat(const std::vector<int64_t>& shape);

// Throws WrongShape: `where` names the input and the file.
void check_sample_shape(const std::string& where, const std::vector<int64_t>& expected,
                        const std::vector<int64_t>& received);

}  // namespace plimsoll::data
