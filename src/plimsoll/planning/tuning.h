#pragma once

// The times that a run's plans are chosen by: measured now, measured before, or the backend's own.
//
// Measuring keeps to the run's limit: no kernel's operands take more than what every plan of these
// programs takes at least, and than the limit leaves beside the engine.

#include <memory>
#include <string>

#include "planning/request.h"

namespace plimsoll::planning {

// `request.times` with what its folder holds, or, where it says so, with what was measured now.
TimesOptions find_times(const layers::Model& model, const layers::CompileOptions& compile,
                        const layers::BatchSizes& batches, const PlanRequest& request);

// The catalog of `backend` with those times; null where there are none.
std::unique_ptr<graph::KernelCatalog> timed_catalog(const backend::Backend& backend,
                                                    const PlanRequest& request);

// Whether calls of kernels were measured, not the machine's rates alone.
bool has_calls(const TimesOptions& times);

// "measured here on 2026-05-28", "rates measured here on 2026-05-28", or "of the model", with the
// reason where there is one to tell.
std::string describe(const TimesOptions& times);

}  // namespace plimsoll::planning
