#include "toys/toy_plans.h"

#include <cstring>

#include "graph/text.h"
#include "plan/tree/complete.h"
#include "plan/tree/text.h"

namespace plimsoll::toys {

const std::string_view kTwoPhaseProgram = R"(program train batch 8
input %x float32 (B, 4)
state %w float32 (4, 6) weight trainable
state %t float32 (6) moving_statistic
node h lines (%x, %w) -> (%h float32 (B, 6)) {} forward
node y shift (%h, %t) -> (%y float32 (B, 6)) {} forward
node r scale (%y) -> (%r float32 (B, 6)) {factor=0.5} forward
node sums total (%r) -> (%sums float32 (6)) {} forward
node z shift (%r, %sums) -> (%z float32 (B, 6)) {} forward
node spare scale (%z) -> (%spare float32 (B, 6)) {factor=3.0} forward
node k scale (%t) -> (%k float32 (6)) {factor=2.0} forward
node dz gate (%z, %y) -> (%dz float32 (B, 6)) {} backward
node g lines_grad (%x, %dz) -> (%g float32 (4, 6)) {} backward
node w2 descend (%w, %g) -> (%w2 float32 (4, 6)) {} update
node write state_write (%w2) -> () {} writes=w update
output %z
)";

const std::string_view kTwoPhasePlan = R"(program train batch=8
instance %0 x
instance %1 w
instance %2 h
instance %3 t
instance %4 y in_place=%2
instance %5 y form=positive_bits
instance %6 r
instance %7 sums
instance %8 x
instance %9 z
instance %10 dz in_place=%9
instance %11 g
instance %12 w2 in_place=%1
loop L0 batch extent=8 slice=4
  feed %0
  call h (%0 %1) -> (%2)
  call y (%2 %3) -> (%4)
  encode positive_bits %4 -> %5
  call r (%4) -> (%6)
  call sums (%6) -> (%7)
end
call k (%3) -> (_)
loop L1 batch extent=8 slice=4
  feed %8
  call z (%6 %7) -> (%9)
  output %9
  call spare (%9) -> (_)
  call dz (%9 %5) -> (%10)
  call g (%8 %10) -> (%11)
end
call w2 (%1 %11) -> (%12)
call write (%12) -> ()
)";

const std::string_view kVolumeProgram = R"(program train batch 2
input %x float32 (B, 8, 6, 3)
node a lift (%x) -> (%a float32 (B, 8, 6, 3)) {factor=2.0} forward
node b blur (%a) -> (%b float32 (B, 8, 6, 3)) {} forward
node c halve (%b) -> (%c float32 (B, 4, 6, 3)) {} forward
node d lift (%c) -> (%d float32 (B, 4, 6, 3)) {factor=0.25} forward
node s depth_sum (%d) -> (%s float32 (B, 6, 3)) {} forward
node t slab_sum (%b) -> (%t float32 (8)) {} forward
output %s
output %t
)";

const std::string_view kVolumePlan = R"(program train batch=2
instance %0 x
instance %1 a
instance %2 a space=spill
instance %3 a
instance %4 b
instance %5 b space=spill
instance %6 b
instance %7 c
instance %8 d in_place=%7
instance %9 s
instance %10 b
instance %11 t
feed %0
loop L0 depth extent=8 slice=2
  call a (%0) -> (%1)
  begin t0 %1 -> %2
  wait t0
end
loop L1 depth extent=8 slice=2
  loop L2 rows extent=6 slice=2
    begin t1 %2 -> %3 depth=1:1:1:1 rows=2:1:1:1
    wait t1
    call b (%3) -> (%4)
    begin t2 %4 -> %5
    wait t2
  end
end
loop L3 depth extent=4 slice=1
  begin t3 %5 -> %6 depth=1:2:0:1
  wait t3
  call c (%6) -> (%7)
  call d (%7) -> (%8)
  call s (%8) -> (%9)
end
output %9
loop L4 depth extent=8 slice=4
  begin t4 %5 -> %10
  wait t4
  call t (%10) -> (%11)
end
output %11
)";

graph::ProgramSet parse_programs(std::string_view text) {
  return graph::parse_programs(text, registry());
}

plan::Plan parse_plan(std::string_view text, const graph::ProgramSet& programs,
                      const graph::KernelCatalog& catalog, Bytes gap) {
  plan::Plan plan = plan::parse(text, programs);
  plan::complete_plan(plan, programs, catalog, {.gap = gap});
  return plan;
}

void ToySource::fill(int input, int64_t row_begin, int64_t row_count, void* destination) {
  ++fills;
  const int64_t columns = row_elements_[static_cast<size_t>(input)];
  auto* values = static_cast<float*>(destination);
  for (int64_t i = 0; i < row_count * columns; ++i) {
    const int64_t element = row_begin * columns + i;
    values[i] =
        static_cast<float>((element * 37 + input * 11 + element * element % 5) % 33 - 16) / 2;
  }
}

void ToySink::take(int output, int64_t row_begin, int64_t row_count, const void* rows) {
  const auto index = static_cast<size_t>(output);
  const int64_t columns = row_elements_[index];
  std::memcpy(outputs[index].data() + row_begin * columns, rows,
              static_cast<size_t>(row_count * columns) * sizeof(float));
}

}  // namespace plimsoll::toys
