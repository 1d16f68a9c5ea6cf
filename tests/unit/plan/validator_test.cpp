#include "plan/validate/validator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plan/tree/complete.h"
#include "plan/tree/text.h"
#include "toys/toy_plans.h"

// Each test breaks a valid plan in one way. What must never happen is kValid for a broken plan.

namespace plimsoll::plan {
namespace {

using toys::kTwoPhasePlan;
using toys::kTwoPhaseProgram;

class ValidatorTest : public ::testing::Test {
 protected:
  ValidatorTest() { load(kTwoPhaseProgram, kTwoPhasePlan); }

  void load(std::string_view program, std::string_view plan_text) {
    programs_ = toys::parse_programs(program);
    catalog_.blocks["h"] = {2, graph::kWholeAxis};
    catalog_.blocks["sums"] = {4};
    plan_ = toys::parse_plan(plan_text, programs_, catalog_);
  }
  // Another structure for the same program, completed anew.
  void load_plan(std::string text) { plan_ = toys::parse_plan(text, programs_, catalog_); }

  static std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
    std::string result(text);
    const size_t at = result.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    if (at != std::string::npos) result.replace(at, what.size(), by);
    return result;
  }
  void expect(Verdict verdict, std::string_view part = "") const {
    const Validation result = validate(plan_, programs_, catalog_);
    EXPECT_EQ(to_string(result.verdict), to_string(verdict)) << result.message;
    EXPECT_NE(result.message.find(part), std::string::npos) << result.message;
  }

  ProgramPlan& program() { return plan_.programs[0]; }
  Instance& instance(size_t i) { return program().instances[i]; }
  Call& call(std::string_view node) {
    Call* found = nullptr;
    const auto search = [&](std::vector<Item>& items) {
      for (Item& item : items) {
        auto* call = std::get_if<Call>(&item);
        if (call == nullptr || call->clone != 0) continue;
        if (programs_.programs[0].graph.node(call->node).name == node) found = call;
      }
    };
    search(program().items);
    for (Loop& loop : program().loops) search(loop.items);
    return *found;
  }

  graph::ProgramSet programs_;
  toys::ToyCatalog catalog_;
  Plan plan_;
};

TEST_F(ValidatorTest, AcceptsTheUnbrokenPlan) { expect(Verdict::kValid); }

TEST_F(ValidatorTest, AcceptsWhatTheTextSays) {
  EXPECT_EQ(parse(print(plan_, programs_), programs_), plan_);
}

TEST_F(ValidatorTest, WrongProgram) {
  plan_.fingerprint += 1;
  expect(Verdict::kWrongProgram, "fingerprint");
  plan_.fingerprint -= 1;
  plan_.kernel_set = "toy/t2";
  expect(Verdict::kWrongProgram, "kernel set");
  plan_.kernel_set = "toy/t1";
  plan_.block_set = 1;
  expect(Verdict::kWrongProgram, "block set");
  plan_.block_set = 0;
  plan_.parts = 2;
  expect(Verdict::kWrongProgram, "parts");
  plan_.parts = 1;
  program().batch = 16;
  expect(Verdict::kWrongProgram, "batch");
  program().batch = 8;
  program().name = "evaluate";
  expect(Verdict::kWrongProgram, "evaluate");
}

TEST_F(ValidatorTest, MissingProgram) {
  plan_.programs.clear();
  expect(Verdict::kWrongProgram, "programs");
}

TEST_F(ValidatorTest, WrongBlock) {
  program().blocks[0][0] = 4;
  expect(Verdict::kWrongBlock, "node h");
  program().blocks.pop_back();
  expect(Verdict::kWrongBlock);
}

TEST_F(ValidatorTest, OperandOfAnotherValue) {
  call("z").inputs[0] = InstanceId(size_t{4});
  expect(Verdict::kBadReference, "call z");
}

TEST_F(ValidatorTest, IdsThatDoNotExist) {
  const Plan whole = plan_;
  call("z").inputs[0] = InstanceId(size_t{99});
  expect(Verdict::kBadReference);
  plan_ = whole;
  call("z").inputs[0] = InstanceId();
  expect(Verdict::kBadReference);
  plan_ = whole;
  call("z").node = graph::NodeId(size_t{99});
  expect(Verdict::kBadReference);
  plan_ = whole;
  instance(4).scope = LoopId(size_t{7});
  expect(Verdict::kBadReference, "L7");
  plan_ = whole;
  instance(4).value = graph::ValueId(size_t{99});
  expect(Verdict::kBadReference);
  plan_ = whole;
  instance(4).in_place = InstanceId(size_t{99});
  expect(Verdict::kBadReference);
  plan_ = whole;
  call("z").outputs.clear();
  expect(Verdict::kBadReference);
}

TEST_F(ValidatorTest, LoopEnteredTwiceOrNever) {
  const Plan whole = plan_;
  program().items.push_back(Enter{LoopId(size_t{0})});
  expect(Verdict::kBadReference, "entered twice");
  plan_ = whole;
  program().loops.push_back({"batch", 8, 8, {}});
  expect(Verdict::kBadReference, "never entered");
}

TEST_F(ValidatorTest, InstanceThatNothingWrites) {
  instance(4).copy = 1;
  expect(Verdict::kBadReference, "copy 0 of %y");
  instance(4).copy = 0;
  program().instances.push_back(instance(6));
  expect(Verdict::kBadReference, "written by no item");
}

TEST_F(ValidatorTest, CopyOfAnotherValue) {
  std::get<Encode>(program().loops[0].items[3]).source = InstanceId(size_t{6});
  expect(Verdict::kBadReference, "one value");
}

TEST_F(ValidatorTest, FeedOfNoInput) {
  std::get<Feed>(program().loops[0].items[0]).target = InstanceId(size_t{6});
  expect(Verdict::kBadReference, "input");
}

TEST_F(ValidatorTest, MissingNode) {
  std::erase(program().loops[1].items, Item(call("spare")));
  expect(Verdict::kMissingNode, "spare");
}

TEST_F(ValidatorTest, MissingOutput) {
  std::erase(program().loops[1].items, Item(Output{InstanceId(size_t{9})}));
  expect(Verdict::kMissingNode, "output %z");
}

TEST_F(ValidatorTest, NodeComputedTwice) {
  program().loops[1].items.push_back(call("spare"));
  expect(Verdict::kRepeatedNode, "spare");
}

TEST_F(ValidatorTest, NodeWithoutBatchInALoopOverIt) {
  const Item k = call("k");
  std::erase(program().items, k);
  program().loops[1].items.push_back(k);
  expect(Verdict::kRepeatedNode, "call k");
}

TEST_F(ValidatorTest, RowsHandedOutTwice) {
  std::vector<Item>& items = program().loops[1].items;
  items.insert(items.begin() + 2, Item(Output{InstanceId(size_t{9})}));
  expect(Verdict::kRepeatedNode, "output");
}

TEST_F(ValidatorTest, SliceThatIsNoMultipleOfTheBlock) {
  load_plan(replaced(kTwoPhasePlan, "extent=8 slice=4", "extent=8 slice=6"));
  expect(Verdict::kBadSlice);
  load_plan(replaced(kTwoPhasePlan, "extent=8 slice=4", "extent=8 slice=3"));
  expect(Verdict::kBadSlice);
}

TEST_F(ValidatorTest, LoopOfAnotherExtent) {
  program().loops[1].extent = 12;
  expect(Verdict::kBadSlice, "12");
  program().loops[1].extent = 8;
  program().loops[1].slice = 0;
  expect(Verdict::kBadSlice);
}

TEST_F(ValidatorTest, BadBinding) {
  call("z").bindings = {{LoopId(size_t{1}), "columns"}};
  expect(Verdict::kBadSlice, "columns");
  call("z").bindings = {{LoopId(size_t{0}), "batch"}};
  expect(Verdict::kBadSlice, "not around");
}

TEST_F(ValidatorTest, InstanceOfAnotherSize) {
  instance(6).bytes += Bytes(64);
  expect(Verdict::kWrongSize, "%6");
  instance(6).bytes -= Bytes(128);
  expect(Verdict::kWrongSize, "%6");
}

TEST_F(ValidatorTest, ScopeThatIsNotAroundAllUses) {
  instance(6).scope = LoopId(size_t{0});
  expect(Verdict::kWrongSize, "%6");
}

TEST_F(ValidatorTest, StateOfAnotherSize) {
  plan_.states[0].bytes -= Bytes(4);
  expect(Verdict::kWrongSize, "state w");
}

TEST_F(ValidatorTest, ReadBeforeItIsComputed) {
  std::swap(program().loops[0].items[1], program().loops[0].items[2]);
  expect(Verdict::kNotComputed, "call y");
}

TEST_F(ValidatorTest, RowsOfAnotherTurn) {
  load_plan(replaced(replaced(kTwoPhasePlan, "  feed %0\n", ""), "loop L0", "feed %0\nloop L0"));
  expect(Verdict::kValid);  // the whole input at once is fine
  std::vector<Item>& root = program().items;
  std::rotate(root.begin(), root.begin() + 1, root.begin() + 2);
  expect(Verdict::kNotComputed, "call h");
}

TEST_F(ValidatorTest, SumReadInsideOfItsLoop) {
  std::string text = replaced(kTwoPhasePlan, "  call z (%6 %7) -> (%9)\n  output %9\n", "");
  text = replaced(text, "dz in_place=%9", "dz");
  text = replaced(text, "  call spare (%9) -> (_)\n  call dz (%9 %5) -> (%10)\n", "");
  text = replaced(text, "  call sums (%6) -> (%7)\n",
                  "  call sums (%6) -> (%7)\n  call z (%6 %7) -> (%9)\n  output %9\n"
                  "  call spare (%9) -> (_)\n  call dz (%9 %5) -> (%10)\n");
  load_plan(text);
  expect(Verdict::kIncompleteSum, "call z");
}

TEST_F(ValidatorTest, SumWhoseScopeIsInsideOfItsLoop) {
  // %11 is summed in L1 and read after it, so its scope cannot be L1; a sum that nobody reads can.
  load_plan(replaced(replaced(kTwoPhasePlan, "instance %11 g\n", "instance %11 g scope=root\n"),
                     "instance %7 sums\n", "instance %7 sums scope=L0\n"));
  expect(Verdict::kWrongSize, "%7");
}

TEST_F(ValidatorTest, StateReadAfterItsWrite) {
  // h is computed by a clone once more after the update.
  std::string text = std::string(kTwoPhasePlan);
  text = replaced(text, "call w2 (%1 %11) -> (%12)\ncall write (%12) -> ()\n",
                  "call w2 (%1 %11) -> (%12)\ncall write (%12) -> ()\n"
                  "feed %14\ncall h (%14 %1) -> (%13) clone=1\n");
  text = replaced(text, "loop L0", "instance %13 h copy=1\ninstance %14 x\nloop L0");
  load_plan(text);
  expect(Verdict::kStateOrder, "call h (clone 1)");
  // The same without taking the memory over: the write itself ends the old value.
  load_plan(replaced(text, "w2 in_place=%1", "w2"));
  expect(Verdict::kStateOrder, "call h (clone 1)");
}

TEST_F(ValidatorTest, StateNotWritten) {
  std::erase(program().items, Item(call("write")));
  expect(Verdict::kStateOrder, "write");
}

TEST_F(ValidatorTest, StateWriteCloned) {
  Call clone = call("write");
  clone.clone = 1;
  program().items.push_back(clone);
  expect(Verdict::kStateOrder, "never cloned");
}

TEST_F(ValidatorTest, StateWrittenInALoop) {
  const Item write = call("write");
  std::erase(program().items, write);
  program().loops.push_back({"batch", 8, 4, {write}});
  program().items.push_back(Enter{LoopId(size_t{2})});
  expect(Verdict::kStateOrder, "second time");
}

TEST_F(ValidatorTest, InstanceInTheMemoryOfAnotherState) {
  instance(1).offset = instance(3).offset;
  expect(Verdict::kBadReference, "%1");
}

TEST_F(ValidatorTest, OverlapInTimeAndAddress) {
  instance(6).offset = instance(5).offset;
  expect(Verdict::kOverlap, "%6");
}

TEST_F(ValidatorTest, OverlapWithScratch) {
  call("h").scratch_offset = instance(6).offset;
  expect(Verdict::kOverlap, "scratch");
}

TEST_F(ValidatorTest, OneShiftedOffset) {
  size_t caught = 0;
  for (size_t i = 0; i < program().instances.size(); ++i) {
    if (instance(i).space != Space::kArena) continue;
    instance(i).offset += kAlignment;
    const Validation result = validate(plan_, programs_, catalog_);
    if (!result.ok()) ++caught;
    EXPECT_TRUE(result.ok() || result.verdict == Verdict::kOverlap ||
                result.verdict == Verdict::kPeak || result.verdict == Verdict::kBadInPlace)
        << result.message;
    instance(i).offset -= kAlignment;
  }
  EXPECT_GE(caught, 4U);  // what has nothing after it while it lives may be shifted
}

TEST_F(ValidatorTest, StatesThatOverlap) {
  plan_.states[1].offset = plan_.states[0].offset;
  expect(Verdict::kOverlap, "states");
}

TEST_F(ValidatorTest, InPlaceWhereTheOperatorForbidsIt) {
  instance(11).in_place = InstanceId(size_t{8});
  expect(Verdict::kBadInPlace);
  instance(11).in_place = InstanceId();
  instance(7).in_place = InstanceId(size_t{6});
  expect(Verdict::kBadInPlace);
}

TEST_F(ValidatorTest, InPlaceOfWhatIsReadLater) {
  // y takes %2's memory over; r reads it as another operand of a clone afterwards.
  std::string text = replaced(kTwoPhasePlan, "  call spare (%9) -> (_)\n", "");
  text = replaced(text, "  call g (%8 %10) -> (%11)\n",
                  "  call spare (%9) -> (_)\n  call g (%8 %10) -> (%11)\n");
  load_plan(text);
  expect(Verdict::kBadInPlace, "reused");
}

TEST_F(ValidatorTest, InPlaceInACircle) {
  instance(2).in_place = InstanceId(size_t{4});
  expect(Verdict::kBadInPlace, "circle");
}

TEST_F(ValidatorTest, FormThatTheKernelDoesNotAccept) {
  call("z").inputs[0] = InstanceId(size_t{5});
  instance(5).value = instance(6).value;
  std::get<Encode>(program().loops[0].items[3]).source = InstanceId(size_t{6});
  std::swap(program().loops[0].items[3], program().loops[0].items[4]);
  call("dz").inputs[1] = InstanceId(size_t{4});
  instance(4).scope = LoopId();
  expect(Verdict::kBadForm, "call z");
}

TEST_F(ValidatorTest, UnknownForm) {
  instance(5).form = "zip";
  expect(Verdict::kBadForm, "zip");
}

TEST_F(ValidatorTest, ScratchBelowTheCatalogs) {
  call("h").scratch_bytes -= Bytes(1);
  expect(Verdict::kScratch, "call h");
}

TEST_F(ValidatorTest, Misaligned) {
  plan_.programs[0].arena_bytes += Bytes(64);
  plan_.arena_bytes += Bytes(64);
  instance(11).offset += Bytes(8);
  expect(Verdict::kMisaligned, "%11");
  instance(11).offset -= Bytes(8);
  plan_.states[1].offset += Bytes(4);
  expect(Verdict::kMisaligned, "state t");
}

TEST_F(ValidatorTest, BeyondTheRegion) {
  const Plan whole = plan_;
  program().arena_bytes -= Bytes(64);
  plan_.arena_bytes -= Bytes(64);
  expect(Verdict::kPeak);
  plan_ = whole;
  plan_.arena_bytes += Bytes(64);
  expect(Verdict::kPeak, "arena");
  plan_ = whole;
  instance(6).offset = Bytes(INT64_MAX / 64 * 64);
  expect(Verdict::kPeak);
  plan_ = whole;
  instance(6).offset = Bytes(-64);
  expect(Verdict::kPeak);
  plan_ = whole;
  plan_.state_bytes -= Bytes(64);
  expect(Verdict::kPeak);
}

}  // namespace
}  // namespace plimsoll::plan
