// Any text as a graph or as a plan of a known program: what is read prints and reads the same, and
// the verifier and the validator answer.

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "fuzz/fuzz_input.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "toys/toy_plans.h"

namespace {

using namespace plimsoll;

void read_graph(std::string_view text) {
  const graph::ProgramSet programs = graph::parse_programs(text, toys::registry());
  for (const graph::Program& program : programs.programs) {
    if (graph::verify(program.graph)) return;  // the text of a wrong graph need not hold it all
  }
  const std::string printed = graph::print(programs);
  if (graph::print(graph::parse_programs(printed, toys::registry())) != printed) std::abort();
}

void read_plan(std::string_view text) {
  static const graph::ProgramSet programs = toys::parse_programs(toys::kTwoPhaseProgram);
  static const toys::ToyCatalog catalog;
  plan::Plan plan = plan::parse(text, programs);
  if (!(plan::parse(plan::print(plan, programs), programs) == plan)) std::abort();
  plan.kernel_set = catalog.kernel_set();
  plan.parts = catalog.part_count();
  plan.fingerprint = graph::fingerprint(programs);
  (void)plan::validate(plan, programs, catalog);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    data[0] % 2 == 0 ? read_graph(text) : read_plan(text);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel && error.kind() != ErrorKind::kConfig) std::abort();
  }
  return 0;
}
