#pragma once

// The optimizer's part of a dense_grad_update: the update of some rows by their gradient.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/kernel/kernel.h"

namespace plimsoll::backend {

class RowsUpdate {
 public:
  using Make = std::function<std::unique_ptr<Kernel>(const KernelRequest&)>;
  // `inputs`, `attributes`: of the dense_grad_update. `make` makes the optimizer's kernel, which
  // needs no scratch, for operands without gaps; the request does not outlive the call.
  RowsUpdate(std::span<const graph::ValueType> inputs, const graph::Attributes& attributes,
             int64_t rows, const Make& make);

  int64_t rows() const { return rows_; }
  // Rows [first, first + rows) of the call's; `gradient`: theirs.
  void run(const KernelCall& call, int64_t first, std::byte* gradient) const noexcept;

 private:
  static constexpr size_t kMostOperands = 16;

  int64_t rows_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::vector<int64_t>> dims_;  // of each operand of the update
  std::vector<std::vector<int64_t>> strides_;
  std::vector<int64_t> row_bytes_;  // 0: a scalar
};

}  // namespace plimsoll::backend
