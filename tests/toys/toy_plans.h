#pragma once

// Graphs and plans of toy operators, as text, and a source and a sink for them.

#include <string>
#include <string_view>
#include <vector>

#include "base/tensor_io.h"
#include "graph/program.h"
#include "plan/core/plan.h"
#include "toys/toy_ops.h"

namespace plimsoll::toys {

graph::ProgramSet parse_programs(std::string_view text);
// Parsed and completed; a gap in bytes after each buffer.
plan::Plan parse_plan(std::string_view text, const graph::ProgramSet& programs,
                      const graph::KernelCatalog& catalog, Bytes gap = Bytes());

// A net in two phases: sums over the whole batch between them, bits of %y kept for the gate, an
// update in place.
extern const std::string_view kTwoPhaseProgram;
extern const std::string_view kTwoPhasePlan;

// A volume in loops over its depth, one with a loop over rows inside: windows with a halo in both
// are read from the spill file, a window of stride 2 as well, and a sum over the depth.
extern const std::string_view kVolumeProgram;
extern const std::string_view kVolumePlan;

// Input rows that are a function of input, row and column: half integers from -8 to 8.
class ToySource final : public InputSource {
 public:
  // Elements of a row of each input.
  explicit ToySource(std::vector<int64_t> row_elements) : row_elements_(std::move(row_elements)) {}
  void fill(int input, int64_t row_begin, int64_t row_count, void* destination) override;
  int fills = 0;

 private:
  std::vector<int64_t> row_elements_;
};

// Keeps what it is given, per output; room is made up front.
class ToySink final : public OutputSink {
 public:
  explicit ToySink(std::vector<std::vector<float>> room, std::vector<int64_t> row_elements)
      : outputs(std::move(room)), row_elements_(std::move(row_elements)) {}
  void take(int output, int64_t row_begin, int64_t row_count, const void* rows) override;
  std::vector<std::vector<float>> outputs;

 private:
  std::vector<int64_t> row_elements_;
};

}  // namespace plimsoll::toys
