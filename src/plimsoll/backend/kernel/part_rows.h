#pragma once

// Where a call's rows of a table lie in the whole one, of which a rank may hold a part.

#include "backend/kernel/kernel.h"

namespace plimsoll::backend {

// `part_rows`: rows of a part; 0: the table is whole.
inline int64_t first_table_row(const KernelCall& call, int64_t part_rows) {
  const bool shared = call.step != nullptr && call.step->ranks != nullptr;
  return call.begin[0] + (shared ? call.step->ranks->rank() * part_rows : 0);
}

}  // namespace plimsoll::backend
