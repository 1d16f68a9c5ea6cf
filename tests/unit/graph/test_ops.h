#pragma once

// A handful of operators for tests of graph itself, which knows none.
//
//   product(a, b)            elementwise, one type
//   matmul(x (B, K), w (K, N)) → (B, N), with matmul_grad_x and matmul_grad_w
//   total(v (B, …)) → scalar, with spread(d){shape}
//   halves(x (B, 2N)) → (B, N), (B, N), with join(a, b)
//   round(x)                 has no gradient

#include "graph/op.h"

namespace plimsoll::graph::testing {

// The operators above and the core ones.
const OpRegistry& test_registry();

}  // namespace plimsoll::graph::testing
