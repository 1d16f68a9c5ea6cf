#pragma once

// What a convolution's primitive holds that grows with the columns of its images.
//
// The library's block kernels ("brgconv") may take a whole row of the result at once. They then
// keep a table of pointers by the number of columns, with descriptions of kernels where the row's
// ends are padded; the primitive keeps two and a half tables as long, and unrolls its last step
// along the row. Only the library knows how many columns it takes at once: what its description
// holds tells.

#include "backend/onednn/convolution.h"
#include "backend/onednn/vendor.h"

namespace plimsoll::backend::onednn {

// The most that tables of its description may take.
Bytes most_described(const Convolution& convolution);

// Beside what short rows take (resident.cpp); `convolution` is that of the primitive.
Bytes table_bytes(const Convolution& convolution, const Compiled& compiled, bool wide_vectors);

// What the code of its primitive takes, objects included, where that is more than usual for its
// kind; otherwise nothing.
Bytes code_bytes(const Convolution& convolution);

}  // namespace plimsoll::backend::onednn
