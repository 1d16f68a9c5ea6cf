#pragma once

// The planner's techniques by name, each of which can be switched off: to see what it is worth, and
// to find out which one is at fault.

#include <span>
#include <string_view>

#include "plan/search/planner.h"

namespace plimsoll::plan {

struct Technique {
  std::string_view name;
  std::string_view what;
  bool PlanOptions::*on;
};

std::span<const Technique> techniques();

// Switches off what `names` lists, separated by commas; nothing where it is empty. Throws kConfig
// with a did-you-mean.
void switch_off(std::string_view names, PlanOptions& options);

}  // namespace plimsoll::plan
