#pragma once

// Ranks of a program that a launcher of MPI started (`mpirun -n 2 python train.py`).

#include <nanobind/nanobind.h>

namespace plimsoll::python {

// Functions that join the other ranks, share bytes with them and leave; Settings.share.
void bind_ranks(nanobind::module_& module);

}  // namespace plimsoll::python
