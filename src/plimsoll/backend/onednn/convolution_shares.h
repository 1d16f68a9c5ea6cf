#pragma once

// How the work of one convolution call is shared out among threads.
//
// Each share is a smaller convolution on part of the operands, computed by one thread: samples
// where there are several, otherwise rows of the one image. Rows of the result need a few rows of
// the source around theirs, so shares of rows read some rows twice, and write none twice.
//
//   source  ┃────────────────┃          result  ┃───────┃
//           ┃ share 0 ───────╂──┐               ┃ 0     ┃
//           ┃─ ─ ─ ─ ─ ─ ─ ─ ┃  │ halo          ┃───────┃
//           ┃ share 1 ───────╂──┘               ┃ 1     ┃
//
// A weight gradient's shares each make a whole gradient, to be added up in order. In front of a
// pooling there are more shares than threads: rows of one image whose result stays in a cache.

#include <cstdint>
#include <vector>

#include "backend/onednn/convolution.h"

namespace plimsoll::backend::onednn {

struct Share {
  size_t work = 0;  // in Shares::works
  // Where its first element lies in the call's operands: x (or dx), and y (or dy; pooled y in front
  // of a pooling). In elements.
  int64_t source = 0;
  int64_t result = 0;
};
struct Shares {
  std::vector<Convolution> works;  // of different sizes
  std::vector<Share> shares;       // at least one
};

// A function of the call's shape alone; at most `threads` shares where nothing is pooled.
Shares share_out(const Convolution& call, int most_parts);

}  // namespace plimsoll::backend::onednn
