#include "report/plan_text.h"

#include <gtest/gtest.h>

namespace plimsoll::report {
namespace {

PlanSummary fitting() {
  PlanSummary summary;
  summary.model = "net";
  summary.batch = 64;
  summary.optimizer = "Adam";
  summary.limit = 64_MiB;
  summary.predicted_process = 58_MiB;
  summary.smallest_same_bits = 40_MiB;
  summary.smallest_feasible = 40_MiB;
  summary.free_plan = 80_MiB;
  summary.lower_bound = 30_MiB;
  return summary;
}

PlanSummary refused() {
  PlanSummary summary = fitting();
  summary.limit = 32_MiB;
  summary.refusal = Refusal{"no plan found"};
  summary.refusal->remedies = {
      {"--memory 41943040",
       40_MiB,
       Bytes(),
       0.5,
       "the same bits",
       Changes::kNothing,
       {"--memory", "40.0MiB"},
       Means::kMemory},
      {"half the units", 20_MiB, Bytes(), 0.1, "another model", Changes::kModel, {}},
      {"--optimizer 'sgd'",
       30_MiB,
       Bytes(),
       0.4,
       "other steps",
       Changes::kSteps,
       {"--optimizer", "sgd"}},
      {"--batch 8",
       30_MiB,
       Bytes(),
       0.3,
       "other steps: more of them",
       Changes::kSteps,
       {"--batch", "8"},
       Means::kBatch}};
  return summary;
}

size_t place(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  EXPECT_NE(at, std::string::npos) << words << "\n" << text;
  return at;
}

TEST(AnswerText, TheFirstLineSaysByHowMuchItFits) {
  EXPECT_EQ(answer_sentence(fitting()), "fits: 58.0 of 64.0 MiB (6.0 MiB to spare)");
  PlanSummary exact = fitting();
  exact.predicted_process = *exact.limit - Bytes(8);
  EXPECT_EQ(answer_sentence(exact), "fits: 64.0 of 64.0 MiB (8 B to spare)");
}

TEST(AnswerText, TheFirstLineSaysByHowMuchItDoesNot) {
  PlanSummary summary = refused();
  EXPECT_EQ(answer_sentence(summary),
            "does not fit: needs 40.0 MiB, 8.0 MiB above the limit of 32.0 MiB");
  summary.smallest_with_spill = 33_MiB;
  EXPECT_EQ(answer_sentence(summary),
            "does not fit: needs 33.0 MiB, 1.0 MiB above the limit of 32.0 MiB");
  // Up, so that what is named is enough.
  summary.smallest_with_spill = 33_MiB + Bytes(1);
  EXPECT_EQ(answer_sentence(summary),
            "does not fit: needs 33.1 MiB, 1.1 MiB above the limit of 32.0 MiB");
}

TEST(AnswerText, RemediesComeNextTheCheapestFirst) {
  const std::string text = to_text(refused(), false);
  const size_t memory = place(text, "memory = 40.0MiB");
  const size_t batch = place(text, "batch = 8");
  const size_t optimizer = place(text, "optimizer = sgd");
  EXPECT_LT(memory, batch);
  EXPECT_LT(batch, optimizer);
  EXPECT_LT(optimizer, place(text, "half the units"));
  EXPECT_LT(place(text, "half the units"), place(text, "limits"));
}

TEST(AnswerText, ARemedyIsToldByItsMeans) {
  PlanSummary summary = refused();
  Remedy& remedy = summary.refusal->remedies.front();
  remedy.effect = "words for scripts";
  place(to_text(summary, false), "raise the limit: the same result (");
  remedy.means = Means::kMemoryAndFile;
  place(to_text(summary, false), "raise the limit and use a spill file: the same result (");
  remedy.means = Means::kFile;
  place(to_text(summary, false), "use a spill file: the same result (");
  remedy.changes = Changes::kRounding;
  place(to_text(summary, false), "words for scripts (");
}

// Against the other remedies, not against the plan without a limit, which is no remedy.
TEST(AnswerText, ASpillFileIsSlowerThanMoreMemoryOnlyWhereItIs) {
  PlanSummary summary = refused();
  Remedy file = summary.refusal->remedies.front();
  file.means = Means::kFile;
  file.seconds_per_step = 0.6;
  summary.refusal->remedies.push_back(file);
  place(to_text(summary, false), "use a spill file: the same result, slower (");
  summary.refusal->remedies.back().seconds_per_step = 0.4;
  place(to_text(summary, false), "use a spill file: the same result (");
  // One that changes the result is no measure of it.
  summary.refusal->remedies.front().changes = Changes::kRounding;
  summary.refusal->remedies.back().seconds_per_step = 0.6;
  place(to_text(summary, false), "use a spill file: the same result (");
}

TEST(AnswerText, WhatChangesTheResultSaysSo) {
  const std::string text = to_text(refused(), false);
  place(text, "raise the limit: the same result (40.0 MiB");
  place(text, "other steps: more of them; the result differs (30.0 MiB");
}

TEST(AnswerText, WhereNothingIsProvedTheBestFoundIsTold) {
  PlanSummary summary = refused();
  summary.refusal->bound = ProvedBound{20_MiB, "the weights"};
  EXPECT_EQ(
      answer_sentence(summary),
      "does not fit: the best plan found needs 40.0 MiB, 8.0 MiB above the limit of 32.0 MiB");
  EXPECT_EQ(to_text(summary, false).find("search longer"), std::string::npos);
  summary.refusal->longer_search = 60;
  place(to_text(summary, false), "search longer: the same result, if a plan is found\n");
  place(to_text(summary, false), "plan_time = 60\n");
  summary.refusal->proved = true;
  EXPECT_EQ(answer_sentence(summary),
            "does not fit: needs 40.0 MiB, 8.0 MiB above the limit of 32.0 MiB");
}

// What a sentence rounds up, so that it is enough, a table does too.
TEST(AnswerText, SentencesAndTablesRoundAlike) {
  PlanSummary summary = refused();
  summary.refusal->remedies.clear();
  summary.smallest_same_bits = 40_MiB + Bytes(1);
  summary.smallest_feasible = summary.smallest_same_bits;
  const std::string text = to_text(summary, false);
  place(text, "needs 40.1 MiB, 8.1 MiB above");
  place(text, "40.1  found at this effort");
}

TEST(AnswerText, WhatIsSparedIsTheDifferenceOfTheFiguresThatStandThere) {
  PlanSummary summary = fitting();
  summary.limit = 64_MiB + 50_KiB;              // 64.05: 64.0
  summary.predicted_process = 58_MiB + 60_KiB;  // 58.06: 58.1
  EXPECT_EQ(answer_sentence(summary), "fits: 58.1 of 64.0 MiB (5.9 MiB to spare)");
}

TEST(AnswerText, ABoundBesideASpillFileSaysThatItIsWithoutOne) {
  PlanSummary summary = fitting();
  EXPECT_EQ(to_text(summary, false).find("lower bound, without"), std::string::npos);
  summary.smallest_with_spill = 28_MiB;
  place(to_text(summary, false), "lower bound, without a spill file");
}

TEST(PlanSummary, TheVerdictIsThatOfTheRefusal) {
  EXPECT_EQ(fitting().verdict(), Verdict::kFits);
  PlanSummary summary = refused();
  EXPECT_EQ(summary.verdict(), Verdict::kNotFound);
  place(to_json(summary), R"("answer": "not_found")");
  summary.refusal->proved = true;
  EXPECT_EQ(summary.verdict(), Verdict::kImpossible);
  place(to_json(summary), R"("answer": "impossible")");
}

// Nothing was searched for a saved plan: there is no bound to tell of.
TEST(AnswerText, ARefusalWithoutABoundGivesItsReason) {
  PlanSummary summary = refused();
  summary.refusal->reason = "the saved plan needs more";
  place(to_text(summary, false), "why: the saved plan needs more\n");
  summary.refusal->bound = ProvedBound{20_MiB, "the weights"};
  EXPECT_EQ(to_text(summary, false).find("the saved plan needs more"), std::string::npos);
  place(to_text(summary, false), "Below 20.0 MiB it is impossible (proved)");
}

TEST(AnswerText, AFaceSpellsItsOwnOptions) {
  const std::string text = to_refusal(refused(), [](const OptionChange& change) {
    return "run " + change.option + " " + change.value;
  });
  place(text, "run --batch 8\n");
  EXPECT_EQ(text.find("batch = 8"), std::string::npos);
}

TEST(AnswerText, TablesHaveOneUnitAndNoBytes) {
  const std::string text = to_text(fitting(), false);
  place(text, "MiB\n");
  EXPECT_EQ(text.find(" B)"), std::string::npos);
  EXPECT_EQ(text.find("41943040"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::report
