#include "plan/tree/moves.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/facts/estimate.h"
#include "plan/facts/liveness.h"
#include "plan/tree/complete.h"
#include "plan/tree/text.h"
#include "plan/validate/validator.h"
#include "toys/toy_plans.h"

namespace plimsoll::plan {
namespace {

constexpr std::string_view kStep = R"(
program train batch 8
input %x float32 (B, 64)
state %w float32 (64, 64) weight trainable layer=dense
node h lines (%x, %w) -> (%h float32 (B, 64)) {} layer=dense forward
node y scale (%h) -> (%y float32 (B, 64)) {factor=0.5} layer=relu forward
node z scale (%y) -> (%z float32 (B, 64)) {factor=2.0} forward
node loss grand_total (%z) -> (%loss float32 ()) {} loss
node dz scale (%z) -> (%dz float32 (B, 64)) {factor=2.0} backward
node dh gate (%dz, %y) -> (%dh float32 (B, 64)) {} layer=relu backward
node g lines_grad (%x, %dh) -> (%g float32 (64, 64)) {} layer=dense backward
node u descend (%w, %g) -> (%u float32 (64, 64)) {} update
node write state_write (%u) -> () {} writes=w update
output %loss
)";

constexpr std::string_view kTwoWeights = R"(
program train batch 8
input %x float32 (B, 64)
state %w float32 (64, 64) weight trainable layer=dense
state %v float32 (64, 64) weight trainable layer=other
node h lines (%x, %w) -> (%h float32 (B, 64)) {} layer=dense forward
node k lines (%h, %v) -> (%k float32 (B, 64)) {} layer=other forward
node m gate (%k, %h) -> (%m float32 (B, 64)) {} forward
node n gate (%m, %k) -> (%n float32 (B, 64)) {} forward
node o gate (%n, %m) -> (%o float32 (B, 64)) {} forward
node p gate (%o, %n) -> (%p float32 (B, 64)) {} forward
node q gate (%p, %h) -> (%q float32 (B, 64)) {} forward
node r gate (%q, %k) -> (%r float32 (B, 64)) {} forward
node s gate (%r, %m) -> (%s float32 (B, 64)) {} forward
node t gate (%s, %x) -> (%t float32 (B, 64)) {} forward
node loss grand_total (%t) -> (%loss float32 ()) {} loss
output %loss
)";

std::string replace_batch(std::string_view text, std::string_view from, const std::string& to,
                          int batch) {
  std::string replaced(text);
  replaced.replace(replaced.find(from), from.size(), to + std::to_string(batch));
  return replaced;
}

toys::ToyCatalog catalog_of(std::map<std::string, graph::Block> blocks) {
  toys::ToyCatalog catalog;
  catalog.blocks = std::move(blocks);
  return catalog;
}

// A plan whose transfers were drawn apart.
struct Drawn {
  Drawn(std::string_view text, int batch, std::string_view step = kStep,
        std::map<std::string, graph::Block> blocks = {}, Bytes more = {})
      : programs(toys::parse_programs(replace_batch(step, "batch 8", "batch ", batch))),
        catalog(catalog_of(std::move(blocks))),
        plan(toys::parse_plan(replace_batch(text, "batch=8", "batch=", batch), programs, catalog)) {
    before = find_arena_load(plan);
    ProgramFacts facts(programs.programs.front(), catalog);
    draw_apart(facts, plan.programs.front(), more == Bytes() ? Bytes() : before + more);
    complete_plan(plan, programs, catalog);
  }
  // Calls by name, transfers by what they do and number.
  std::string items() const {
    std::string text;
    for (const Item& item : plan.programs.front().items) {
      if (const auto* call = std::get_if<Call>(&item)) {
        text += programs.programs.front().graph.node(call->node).name;
      } else if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
        text += "begin" + std::to_string(begin->number);
      } else if (const auto* wait = std::get_if<WaitTransfer>(&item)) {
        text += "wait" + std::to_string(wait->number);
      } else {
        continue;
      }
      text += " ";
    }
    return text;
  }
  void expect_valid_and_no_larger() const {
    const Validation verdict = validate(plan, programs, catalog);
    EXPECT_TRUE(verdict.ok()) << verdict.message;
    EXPECT_EQ(find_arena_load(plan), before);
  }

  graph::ProgramSet programs;
  toys::ToyCatalog catalog;
  Plan plan;
  Bytes before;
};

TEST(Moves, AStoreIsWaitedForWhenItIsReadAgain) {
  const Drawn drawn(R"(program train batch=8
instance %0 x
instance %1 w
instance %2 h
instance %3 y
instance %4 y space=spill
instance %5 y
instance %6 z
instance %7 loss
instance %8 dz
instance %9 dh
instance %10 g
instance %11 u in_place=%1
feed %0
call h (%0 %1) -> (%2)
call y (%2) -> (%3)
call z (%3) -> (%6)
begin t0 %3 -> %4
wait t0
call loss (%6) -> (%7)
call dz (%6) -> (%8)
begin t1 %4 -> %5
wait t1
call dh (%8 %5) -> (%9)
call g (%0 %9) -> (%10)
call u (%1 %10) -> (%11)
call write (%11) -> ()
output %7
)",
                    8);
  EXPECT_EQ(drawn.items(), "h y z begin0 loss wait0 begin1 dz wait1 dh g u write ");
  drawn.expect_valid_and_no_larger();
}

constexpr std::string_view kReadTwice = R"(state w space=spill
program train batch=8
instance %0 x
instance %1 w
instance %2 w space=spill
instance %3 w
instance %4 h
instance %5 y
instance %6 z
instance %7 loss
instance %8 dz
instance %9 dh
instance %10 g
instance %11 u in_place=%3
instance %12 u space=spill
feed %0
begin t0 %2 -> %1
wait t0
call h (%0 %1) -> (%4)
call y (%4) -> (%5)
call z (%5) -> (%6)
call loss (%6) -> (%7)
call dz (%6) -> (%8)
call dh (%8 %5) -> (%9)
call g (%0 %9) -> (%10)
begin t1 %2 -> %3
wait t1
call u (%3 %10) -> (%11)
call write (%11) -> ()
begin t2 %11 -> %12
wait t2
output %7
)";

TEST(Moves, ALoadBeginsAsEarlyAsThereIsRoom) {
  // 64 rows are as large as the weight. Four of them are alive at the peak, dh; g has room for one.
  const Drawn drawn(kReadTwice, 64);
  EXPECT_EQ(drawn.items(), "begin0 wait0 h y z loss dz dh begin1 g wait1 u write begin2 wait2 ");
  drawn.expect_valid_and_no_larger();
}

TEST(Moves, WhereThereIsNoRoomBeginsStay) {
  // Two weights are the peak, u: beside another one g has none.
  const Drawn drawn(kReadTwice, 8);
  EXPECT_EQ(drawn.items(), "begin0 wait0 h y z loss dz dh g begin1 wait1 u write begin2 wait2 ");
  drawn.expect_valid_and_no_larger();
}

TEST(Moves, RoomThatIsGivenIsTaken) {
  // As there: beside g, x and dh lie 4 KiB besides. From dz on the calls take what the load takes.
  const Drawn roomy(kReadTwice, 8, kStep, {}, 16_KiB);
  EXPECT_EQ(roomy.items(), "begin0 wait0 h y z loss begin1 dz dh g wait1 u write begin2 wait2 ");
  const Validation verdict = validate(roomy.plan, roomy.programs, roomy.catalog);
  EXPECT_TRUE(verdict.ok()) << verdict.message;
  EXPECT_LE(find_arena_load(roomy.plan), roomy.before + 16_KiB);
  const Drawn tight(kReadTwice, 8, kStep, {}, 2_KiB);
  EXPECT_EQ(tight.items(), "begin0 wait0 h y z loss dz dh g begin1 wait1 u write begin2 wait2 ");
}

TEST(Moves, LoadsKeepTheirOrderWhereTheFirstStays) {
  // A weight is as large as two of the others, of which seven are alive at the peak, p.
  const Drawn drawn(R"(state w space=spill
state v space=spill
program train batch=8
instance %0 x
instance %1 w
instance %2 w space=spill
instance %3 v
instance %4 v space=spill
instance %5 h
instance %6 k
instance %7 m
instance %8 n
instance %9 o
instance %10 p
instance %11 q
instance %12 r
instance %13 s
instance %14 t
instance %15 loss
begin t0 %2 -> %1
wait t0
feed %0
call h (%0 %1) -> (%5)
begin t1 %4 -> %3
wait t1
call k (%5 %3) -> (%6)
call m (%6 %5) -> (%7)
call n (%7 %6) -> (%8)
call o (%8 %7) -> (%9)
call p (%9 %8) -> (%10)
call q (%10 %5) -> (%11)
call r (%11 %6) -> (%12)
call s (%12 %7) -> (%13)
call t (%13 %0) -> (%14)
call loss (%14) -> (%15)
output %15
)",
                    32, kTwoWeights,
                    {{"h", {32, graph::kWholeAxis}}});  // of one call, shorter than a load
  EXPECT_EQ(drawn.items(), "begin0 begin1 wait0 h wait1 k m n o p q r s t loss ");
  drawn.expect_valid_and_no_larger();
}

TEST(Moves, OverlapIsWhatTheEstimateCounts) {
  const Drawn drawn(kReadTwice, 64);
  ProgramFacts facts(drawn.programs.programs.front(), drawn.catalog);
  const ProgramPlan& program = drawn.plan.programs.front();
  ProgramPlan after = program;
  const auto begin = std::ranges::find_if(after.items, [](const Item& item) {
    const auto* transfer = std::get_if<BeginTransfer>(&item);
    return transfer != nullptr && transfer->number == 1;
  });
  ASSERT_TRUE(std::holds_alternative<Call>(*(begin + 1)));
  const auto at = static_cast<size_t>(begin - after.items.begin());
  const std::vector<double> seconds = estimate_items(program, facts);
  std::iter_swap(begin, begin + 1);
  EXPECT_NEAR(estimate_seconds(after, facts) - estimate_seconds(program, facts),
              std::min(seconds[at], seconds[at + 1]), 2e-7);  // items cost 1e-7 each
}

}  // namespace
}  // namespace plimsoll::plan
