#pragma once

// The first plan on a machine has its rates measured (planning/rates.h).
//
// A process of its own does it, this program started anew: what kernels leave in heap and library
// pages is then none of the run's, and no thread of this process is copied. It is given what the
// limit leaves, a few seconds, and silence; whatever goes wrong, plans go by the model's times and
// say so.

#include "run/request.h"

namespace plimsoll::cli {

// Lets the first plan have the rates measured that settings.times would be read from, where there
// are none yet.
void ask_for_rates(run::Settings& settings);

// Whether this process was started for that, and its whole life.
bool is_rates_process(int argc, char** argv);
int run_rates_process(int argc, char** argv);

}  // namespace plimsoll::cli
