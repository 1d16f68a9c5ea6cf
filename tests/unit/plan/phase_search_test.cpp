// Choices of what is kept and what is made again, in the model and in the plans made of them.

#include "plan/search/phase_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "plan/search/phase_ladder.h"
#include "plan/search/trial.h"
#include "toys/toy_ops.h"
#include "unit/plan/toy_networks.h"

namespace plimsoll::plan {
namespace {

class PhaseSearchTest : public ::testing::Test {
 protected:
  PhaseSearchTest()
      : programs_(testing::toy_network(
            {.batch = 32, .widths = std::vector<int64_t>(13, 64), .normalized = true})),
        facts_(programs_.programs.front(), catalog_),
        trials_(facts_, {}, options_) {
    recipe_.shapes = make_flat_shapes(facts_, trials_.dependencies(), trials_.slots()).front();
    build({});
    model_ = make_phase_model({plan_, buffers_}, facts_, trials_.dependencies(), {});
    free_ = load();
    free_seconds_ = estimate_seconds(plan_, facts_);
  }

  void build(std::vector<Cut> cuts) {
    recipe_.cuts = std::move(cuts);
    plan_ = trials_.build(recipe_);
    buffers_ = find_buffers(plan_);
  }
  int64_t load() const { return find_load(buffers_, kAlways).count(); }

  PlanOptions options_;
  toys::ToyCatalog catalog_;
  graph::ProgramSet programs_;
  ProgramFacts facts_;
  Trials trials_;
  Schedule recipe_;
  ProgramPlan plan_;
  std::vector<Buffer> buffers_;
  PhaseModel model_;
  int64_t free_ = 0;
  double free_seconds_ = 0;
};

TEST_F(PhaseSearchTest, TheModelOfNothingGivenUpIsTheTree) {
  const PhaseSearch search(model_);
  EXPECT_EQ(search.nanoseconds(), 0);
  EXPECT_TRUE(search.cuts().empty());
  EXPECT_NEAR(static_cast<double>(search.peak()), static_cast<double>(free_),
              0.1 * static_cast<double>(free_));
}

TEST_F(PhaseSearchTest, PlansAreWhatTheModelSays) {
  for (double share : {0.8, 0.6, 0.4}) {
    PhaseSearch search(model_);
    const auto most = static_cast<int64_t>(share * static_cast<double>(free_));
    search.improve(most, 5000, {});
    const std::vector<Cut> cuts = search.cuts();
    build(cuts);
    EXPECT_NEAR(static_cast<double>(load()), static_cast<double>(search.peak()),
                0.1 * static_cast<double>(free_));
    const double more = estimate_seconds(plan_, facts_) - free_seconds_;
    // Encoding is an item of its own in each iteration of a loop, which the model leaves out.
    const auto forms = static_cast<double>(std::ranges::count(cuts, CutKind::kForm, &Cut::kind));
    EXPECT_NEAR(more, 1e-9 * static_cast<double>(search.nanoseconds()),
                0.1 * more + 32 * 1e-7 * forms);
    EXPECT_GT(more, 0);
  }
}

TEST_F(PhaseSearchTest, WhatEachPlaceHoldsBesideTheModelIsLearnt) {
  PhaseSearch search(model_);
  const int64_t most = free_ / 2;
  int64_t met = free_;
  for (int round = 0; round < 4; ++round) {
    search.improve(most, 5000, {});
    build(search.cuts());
    met = std::min(met, load());
    std::vector<int64_t> more = find_place_loads(model_, {plan_, buffers_});
    for (size_t p = 0; p < more.size(); ++p) more[p] -= search.profile()[p];
    search.correct(more);
    EXPECT_EQ(search.profile(), find_place_loads(model_, {plan_, buffers_}));
  }
  EXPECT_LE(met, most + most / 20);
}

TEST_F(PhaseSearchTest, EqualInputsGiveEqualChoices) {
  PhaseSearch one(model_);
  PhaseSearch other(model_);
  one.improve(free_ / 2, 3000, {});
  other.improve(free_ / 2, 3000, {});
  EXPECT_EQ(one.cuts(), other.cuts());
  EXPECT_FALSE(one.cuts().empty());
}

TEST_F(PhaseSearchTest, LargeModelsAreToldFromOthers) {
  EXPECT_FALSE(PhaseSearch::is_too_large(model_));
  PhaseModel model = model_;
  model.values.front().readers.push_back({0, std::numeric_limits<uint16_t>::max()});
  EXPECT_TRUE(PhaseSearch::is_too_large(model));
  model = model_;
  model.places.resize((size_t{1} << 22) / model.values.size() + 1);
  EXPECT_TRUE(PhaseSearch::is_too_large(model));
}

TEST_F(PhaseSearchTest, ReturnsToWhatItWas) {
  PhaseSearch search(model_);
  std::vector<int64_t> more(model_.places.size(), 100);
  search.improve(free_ / 2, 5000, {});
  search.correct(more);
  const PhaseSearch::State state = search.state();
  const std::vector<int64_t> profile = search.profile();
  const std::vector<Cut> cuts = search.cuts();
  const int64_t nanoseconds = search.nanoseconds();
  search.reseed(1);
  search.improve(free_ / 3, 5000, {});
  search.correct(more);
  EXPECT_NE(search.cuts(), cuts);
  search.return_to(state);
  EXPECT_EQ(search.profile(), profile);
  EXPECT_EQ(search.cuts(), cuts);
  EXPECT_EQ(search.nanoseconds(), nanoseconds);
}

TEST_F(PhaseSearchTest, ALargeLimitGivesNothingUp) {
  PhaseSearch search(model_);
  search.improve(free_ / 2, 5000, {});
  ASSERT_GT(search.nanoseconds(), 0);
  search.improve(2 * free_, 5000, {});
  EXPECT_EQ(search.nanoseconds(), 0);
}

// Of few large values one costs more time than a byte's first price says.
TEST(PhaseSearch, MakesFewLargeValuesAgainWhereNothingElseFits) {
  constexpr int64_t kLarge = int64_t{1} << 30;
  constexpr int64_t kLong = 1'000'000'000;
  PhaseModel model;
  for (int p = 0; p < 6; ++p) {
    model.places.push_back({{p, p + 1}, graph::NodeId(static_cast<size_t>(p)), true});
  }
  model.fixed.assign(6, kLarge / 16);
  // A chain: each is made from the one before, and read again on the way back.
  for (int v = 0; v < 3; ++v) {
    PhaseModel::Value value;
    value.id = graph::ValueId(static_cast<size_t>(v));
    value.made = v;
    value.latest = 5;
    value.bytes = kLarge;
    value.nanoseconds = kLong;
    value.sliced = true;
    if (v > 0) value.operands = {v - 1};
    if (v < 2) value.readers.push_back({v + 1, 1});
    value.readers.push_back({5 - v, 1});
    model.values.push_back(value);
  }
  for (int64_t most : {3 * kLarge, 2 * kLarge, kLarge, kLarge / 8}) {
    PhaseSearch search(model);
    search.improve(most + kLarge / 16, 2000, {});
    EXPECT_LE(search.peak(), most + kLarge / 16);
  }
}

TEST_F(PhaseSearchTest, IsNeverWorseThanWhatItStartsFrom) {
  PhaseSearch search(model_);
  const int64_t most = free_ / 3;
  search.improve(most, 20'000, {});
  ASSERT_LE(search.peak(), most);
  for (int round = 0; round < 5; ++round) {
    const int64_t before = search.nanoseconds();
    search.improve(most, 500, {});
    EXPECT_LE(search.peak(), most);
    EXPECT_LE(search.nanoseconds(), before);
  }
}

TEST_F(PhaseSearchTest, TheLadderGoesDownToWhatCanJustBeMet) {
  std::vector<int64_t> peaks;
  const int64_t left =
      descend(model_, {.least = free_ / 2, .rungs = 10, .steps = 100'000, .scoring = 100},
              [&](const PhaseSearch& search) {
                peaks.push_back(search.peak());
                return std::vector<int64_t>(model_.places.size());
              });
  EXPECT_LT(left, 100'000);
  ASSERT_GT(peaks.size(), 10U);  // it goes on where rungs are met
  EXPECT_LT(std::ranges::min(peaks), free_ / 2);
  EXPECT_TRUE(descend(model_, {.least = 1, .steps = 50, .scoring = 100},
                      [](const PhaseSearch&) { return std::vector<int64_t>(); }) == 50);
}

TEST_F(PhaseSearchTest, AttemptsGoBelowTheLaddersLeast) {
  struct Found {
    int64_t least = std::numeric_limits<int64_t>::max();
    int choices = 0;
  };
  const auto find = [&](int64_t attempts) {
    Found found;
    descend(model_,
            {.least = free_ / 2, .rungs = 4, .attempts = attempts, .steps = 20'000, .scoring = 100},
            [&](const PhaseSearch& search) {
              ++found.choices;
              found.least = std::min(found.least, search.peak());
              return std::vector<int64_t>(model_.places.size());
            });
    return found;
  };
  const Found without = find(0);
  const Found with = find(12);
  EXPECT_GT(with.choices, without.choices);
  EXPECT_LT(with.least, without.least);
  const Found again = find(12);
  EXPECT_EQ(with.least, again.least);
  EXPECT_EQ(with.choices, again.choices);
}

// Cheap values that are made from each other, each from two: most changes run through many of them.
TEST(PhaseSearchOfChains, EffortGrowsWithWhatAChangeTouches) {
  constexpr int kPlaces = 40;
  constexpr int kValues = 400;
  constexpr int kChanges = 2000;
  PhaseModel model;
  model.places.resize(kPlaces);
  model.fixed.resize(kPlaces);
  for (int v = 0; v < kValues; ++v) {
    PhaseModel::Value value;
    value.latest = kPlaces - 1;
    value.bytes = 1000;
    value.nanoseconds = 1;
    value.cheap = true;
    for (int operand = std::max(0, v - 2); operand < v; ++operand)
      value.operands.push_back(operand);
    value.readers = {{.place = 1 + v % (kPlaces - 1), .count = 1}};
    model.values.push_back(value);
  }
  PhaseSearch search(model);
  search.improve(kValues * 100, kChanges, {});
  EXPECT_FALSE(search.cuts().empty());
  EXPECT_LT(search.touched(), 20 * kChanges);
}

PhaseModel random_model(std::mt19937& draw, int places, int values) {
  PhaseModel model;
  for (int p = 0; p < places; ++p) {
    model.places.push_back({{p, p + 1}, graph::NodeId(static_cast<size_t>(p)), draw() % 2 == 0});
    model.fixed.push_back(static_cast<int64_t>(draw() % 1000));
  }
  for (int v = 0; v < values; ++v) {
    PhaseModel::Value value;
    value.id = graph::ValueId(static_cast<size_t>(v));
    value.made = v * (places - 1) / values;
    value.latest = places - 1 - static_cast<int>(draw() % 3);
    value.bytes = 1 + static_cast<int64_t>(draw() % 1000);
    value.nanoseconds = 1 + static_cast<int64_t>(draw() % 100);
    value.sliced = draw() % 2 == 0;
    value.cheap = draw() % 2 == 0;
    if (v > 0) value.operands.push_back(v - 1);
    if (v > 9 && draw() % 2 == 0) value.operands.push_back(v - 9);
    const auto rest = static_cast<unsigned>(places - value.made);
    for (unsigned reader = draw() % 3; reader > 0; --reader) {
      value.readers.push_back({value.made + static_cast<int>(draw() % rest), 1});
    }
    model.values.push_back(value);
  }
  return model;
}

// What lies in each place with those cuts, counted anew.
std::vector<int64_t> count_profile(const PhaseModel& model, const std::vector<Cut>& cuts) {
  const size_t places = model.places.size();
  std::vector<std::vector<bool>> again(model.values.size(), std::vector<bool>(places));
  for (const Cut& cut : cuts) again[cut.value.index()][cut.anchor.index()] = true;
  std::vector<std::vector<bool>> needed(model.values.size(), std::vector<bool>(places));
  std::vector<int64_t> profile = model.fixed;
  for (size_t v = model.values.size(); v-- > 0;) {
    const PhaseModel::Value& value = model.values[v];
    for (const PhaseModel::Readers& reader : value.readers) {
      needed[v][static_cast<size_t>(reader.place)] = true;
    }
    size_t first = static_cast<size_t>(value.made);
    size_t last = first;
    const auto end_copy = [&] {
      if (last == first && value.sliced && model.places[first].loop) return;
      for (size_t p = first; p <= last; ++p) profile[p] += value.bytes;
    };
    for (size_t p = first + 1; p < places; ++p) {
      if (again[v][p]) {
        end_copy();
        first = p;
        for (int operand : value.operands) needed[static_cast<size_t>(operand)][p] = true;
      }
      if (needed[v][p]) last = p;
    }
    end_copy();
  }
  return profile;
}

TEST(PhaseSearchOfAnyModel, KeepsCountOfWhatLiesInEachPlace) {
  std::mt19937 draw(1);
  for (int places : {5, 63, 64, 65, 128, 150}) {
    for (int round = 0; round < 20; ++round) {
      const PhaseModel model = random_model(draw, places, 40);
      PhaseSearch search(model);
      EXPECT_EQ(search.profile(), count_profile(model, {}));
      const int64_t free = search.peak();
      for (int64_t most : {free, free / 2, free / 4, free}) {
        search.improve(most, 300, {});
        EXPECT_EQ(search.profile(), count_profile(model, search.cuts()));
      }
    }
  }
}

TEST_F(PhaseSearchTest, FormsAndInputsAreLeftAloneWhereTheyAreToBe) {
  const PhaseModel model = make_phase_model({plan_, buffers_}, facts_, trials_.dependencies(),
                                            {.forms = false, .reread = false});
  PhaseSearch search(model);
  search.improve(0, 5000, {});
  EXPECT_FALSE(search.cuts().empty());
  for (const Cut& cut : search.cuts()) {
    EXPECT_EQ(cut.kind, CutKind::kRecompute);
    EXPECT_NE(facts_.graph().value(cut.value).kind, graph::ValueKind::kInput);
  }
}

}  // namespace
}  // namespace plimsoll::plan
