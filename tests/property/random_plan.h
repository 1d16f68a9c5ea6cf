#pragma once

// Random plans, for executing and for judging.
//
// random_loops() takes a plan whose items all stand at the root and puts random runs of them into
// loops over the batch, of random slices, loops inside of loops included, and cuts random values at
// random places: right by construction, and the validator must agree. break_plan() changes one
// random thing of a plan without asking whether that is right: where the validator accepts the
// result, running it must give the same bits.

#include <string>

#include "graph/kernel_catalog.h"
#include "graph/program.h"
#include "plan/core/plan.h"
#include "property/random_network.h"

namespace plimsoll::property {

plan::Plan random_loops(const plan::Plan& flat, const graph::ProgramSet& programs,
                        const graph::KernelCatalog& catalog, Random& random, Bytes gap);

// Says what it changed.
std::string break_plan(plan::Plan& plan, const graph::ProgramSet& programs, Random& random);

}  // namespace plimsoll::property
