// Curves of known form, many of each, with noise: the form is found, and flat ends are no leak.

#include "watch/measure/growth.h"

#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace plimsoll::watch {
namespace {

constexpr double kMiB = 1 << 20;

struct Made {
  std::string name;
  CurveForm form;
  std::vector<CurvePoint> points;
  double bytes_per_minute = 0;
};

// What a curve may ask for; all from one seed.
struct Dice {
  std::mt19937_64 engine;
  double between(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine);
  }
  double normal(double sigma) { return std::normal_distribution<double>(0, sigma)(engine); }
};

// `level` of time 0 … 1; sampled 60 to 1500 times over 30 to 3000 seconds, with noise.
Made make(std::string name, CurveForm form, Dice& dice, const std::function<double(double)>& level,
          double noise) {
  Made made{std::move(name), form, {}};
  const int count = static_cast<int>(dice.between(60, 1500));
  const double seconds = dice.between(30, 3000);
  for (int i = 0; i < count; ++i) {
    const double at = (i + dice.between(0, 0.3)) / count;
    const double bytes = std::max(0.0, level(at) + dice.normal(noise));
    made.points.push_back({at * seconds, bytes, bytes});
  }
  return made;
}

double seconds_of(const Made& made) {
  return made.points.back().seconds - made.points.front().seconds;
}

Made growth(Dice& dice) {
  const double base = dice.between(50, 3000) * kMiB;
  const double rise = dice.between(0.08, 3) * base;
  const double ramp = dice.between(0, 0.12);
  Made made = make(
      "growth", CurveForm::kGrowth, dice,
      [=](double t) { return base * std::min(1.0, ramp > 0 ? t / ramp : 1.0) + rise * t; },
      dice.between(0, 0.05) * rise);
  made.bytes_per_minute = rise / seconds_of(made) * 60;
  return made;
}

// Grows in many small steps, one per epoch.
Made staircase(Dice& dice) {
  const double base = dice.between(200, 2000) * kMiB;
  const double rise = dice.between(0.2, 1) * base;
  const double steps = std::floor(dice.between(8, 60));
  Made made = make(
      "staircase", CurveForm::kGrowth, dice,
      [=](double t) { return base + rise * std::floor(t * steps) / steps; }, 0.002 * base);
  made.bytes_per_minute = rise / seconds_of(made) * 60;
  return made;
}

Made leaking_teeth(Dice& dice) {
  const double base = dice.between(200, 2000) * kMiB;
  const double tooth = dice.between(0.1, 0.5) * base;
  const double rise = dice.between(1.0, 3.0) * tooth;
  const double teeth = std::floor(dice.between(6, 14));
  Made made = make(
      "leaking_teeth", CurveForm::kGrowth, dice,
      [=](double t) { return base + rise * t + tooth * std::fmod(t * teeth, 1.0); }, 0.003 * base);
  made.bytes_per_minute = rise / seconds_of(made) * 60;
  return made;
}

Made teeth(Dice& dice) {
  const double base = dice.between(100, 4000) * kMiB;
  const double height = dice.between(0.1, 1.0) * base;
  const double count = dice.between(5, 16);
  return make(
      "teeth", CurveForm::kSawtooth, dice,
      [=](double t) { return base + height * std::fmod(t * count, 1.0); }, 0.01 * height);
}

Made warm_up(Dice& dice) {
  const double base = dice.between(20, 500) * kMiB;
  const double rise = dice.between(0.5, 10) * base;
  const double end = dice.between(0.25, 0.5);
  const bool exponential = dice.between(0, 1) < 0.5;
  return make(
      "warm_up", CurveForm::kWarmUp, dice,
      [=](double t) {
        if (exponential) return base + rise * (1 - std::exp(-t / (end / 4)));
        return base + rise * std::min(t / end, 1.0);
      },
      dice.between(0, 0.01) * base);
}

Made plateau(Dice& dice) {
  const double level = dice.between(50, 8000) * kMiB;
  const double ramp = dice.between(0.005, 0.06);
  return make(
      "plateau", CurveForm::kPlateau, dice,
      [=](double t) { return level * std::min(1.0, 0.1 + t / ramp); },
      dice.between(0, 0.02) * level);
}

// A validation phase or a second model lifts the level once.
Made plateau_with_step(Dice& dice) {
  const double level = dice.between(50, 8000) * kMiB;
  const double at = dice.between(0.3, 0.9);
  const double step = dice.between(0.05, 0.4) * level;
  return make(
      "plateau_with_step", CurveForm::kPlateau, dice,
      [=](double t) { return level * std::min(1.0, 0.1 + t / 0.03) + (t > at ? step : 0); },
      dice.between(0, 0.005) * level);
}

Made flat(Dice& dice) {
  const double level = dice.between(5, 8000) * kMiB;
  return make(
      "flat", CurveForm::kNoGrowth, dice, [=](double) { return level; },
      dice.between(0, 0.02) * level);
}

Made spike(Dice& dice) {
  const double level = dice.between(50, 4000) * kMiB;
  const double at = dice.between(0.2, 0.85);
  const double width = dice.between(0.02, 0.1);
  const double height = dice.between(0.3, 2) * level;
  return make(
      "spike", CurveForm::kSpike, dice,
      [=](double t) { return level + (t >= at && t < at + width ? height : 0); },
      dice.between(0, 0.01) * level);
}

// Pools that take more and more rarely: like the logarithm of time.
Made creep(Dice& dice) {
  const double level = dice.between(200, 3000) * kMiB;
  const double rise = dice.between(0.05, 0.2) * level;
  const double early = dice.between(0.01, 0.05);
  return make(
      "creep", CurveForm::kAllocatorCreep, dice,
      [=](double t) { return level + rise * std::log1p(t / early) / std::log1p(1 / early); },
      dice.between(0, 0.02) * rise);
}

using Maker = Made (*)(Dice&);
constexpr Maker kMakers[] = {growth,  staircase,         leaking_teeth, teeth, warm_up,
                             plateau, plateau_with_step, flat,          spike, creep};

bool is_flat(CurveForm form) { return form == CurveForm::kPlateau || form == CurveForm::kNoGrowth; }

struct Score {
  int right = 0;
  int all = 0;
};

// `rounds` curves of each form, seeded one after the other.
std::map<std::string, Score> score(int rounds, uint64_t first_seed, bool tell) {
  std::map<std::string, Score> scores;
  uint64_t seed = first_seed;
  for (int round = 0; round < rounds; ++round) {
    for (const Maker maker : kMakers) {
      Dice dice{std::mt19937_64(seed)};
      const Made made = maker(dice);
      const Growth found = classify(made.points);
      Score& score = scores[made.name];
      ++score.all;
      score.right += found.form == made.form ? 1 : 0;
      if (is_flat(made.form) || made.form == CurveForm::kWarmUp) {
        EXPECT_NE(found.form, CurveForm::kGrowth) << made.name << " of seed " << seed;
      }
      if (made.form == CurveForm::kGrowth && found.form == CurveForm::kGrowth) {
        EXPECT_NEAR(found.bytes_per_minute / made.bytes_per_minute, 1, 0.25)
            << made.name << " of seed " << seed;
      }
      if (tell && found.form != made.form) {
        std::cout << made.name << " of seed " << seed << " was taken for " << to_string(found.form)
                  << "\n";
      }
      ++seed;
    }
  }
  return scores;
}

int sum(const std::map<std::string, Score>& scores, int Score::*member) {
  int total = 0;
  for (const auto& [name, score] : scores) total += score.*member;
  return total;
}

TEST(CalmBeforeLimit, IsForgottenWhereALastRiseEndedTheCommand) {
  constexpr int64_t kMiB = 1 << 20;
  Growth calm;
  calm.form = CurveForm::kPlateau;
  calm.confidence = 0.9;
  calm.level_bytes = 200.0 * kMiB;
  Growth at_limit = calm;
  forget_calm_before_limit(205 * kMiB, at_limit);
  EXPECT_EQ(at_limit, calm);  // it stayed where it was, a little below the limit
  forget_calm_before_limit(500 * kMiB, at_limit);
  EXPECT_EQ(at_limit.form, CurveForm::kTooShort);
  EXPECT_EQ(at_limit.confidence, 0);
  EXPECT_EQ(at_limit.rise_bytes, 300.0 * kMiB);
  Growth grows = calm;
  grows.form = CurveForm::kGrowth;
  const Growth before = grows;
  forget_calm_before_limit(500 * kMiB, grows);
  EXPECT_EQ(grows, before);
}

TEST(Growth, FortyCurvesGetTheirForm) {
  const std::map<std::string, Score> scores = score(4, 1, true);
  ASSERT_EQ(sum(scores, &Score::all), 40);
  EXPECT_GE(sum(scores, &Score::right), 38);
}

TEST(Growth, FormsAreFoundAmongHundredsOfCurves) {
  const std::map<std::string, Score> scores = score(30, 1000, false);
  for (const auto& [name, score] : scores) {
    std::cout << name << ": " << score.right << "/" << score.all << "\n";
    EXPECT_GE(score.right, score.all * 85 / 100) << name;
  }
  EXPECT_GE(sum(scores, &Score::right), sum(scores, &Score::all) * 95 / 100);
}

// A library is loaded, then each turn keeps 15.7 MiB: what came before hides no steady rise.
TEST(Growth, AfterALargeStartIsNoWarmUp) {
  for (const double start : {0.2, 0.35, 0.45}) {
    for (const int turns : {12, 40}) {
      std::vector<CurvePoint> points;
      for (int i = 0; i < 300; ++i) {
        const double t = i / 300.0;
        const double loaded = 20 + 270 * std::min(1.0, std::floor(t / start * 4) / 4);
        const double kept = t < start ? 0 : std::floor((t - start) / (1 - start) * turns);
        points.push_back({t * 40, (loaded + 15.7 * kept) * kMiB, (loaded + 15.7 * kept) * kMiB});
      }
      const Growth growth = classify(points);
      EXPECT_EQ(growth.form, CurveForm::kGrowth) << start << " " << turns;
      const double per_minute = 15.7 * turns / (40 * (1 - start)) * 60;
      EXPECT_NEAR(growth.bytes_per_minute / kMiB, per_minute, 0.2 * per_minute);
    }
  }
}

TEST(Growth, TheEndOfTheCommandIsNotJudged) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 90; ++i) points.push_back({i * 0.1, i * kMiB, i * kMiB});
  points.push_back({9.0, 48 * kMiB, 88 * kMiB});
  points.push_back({9.1, 2 * kMiB, 2 * kMiB});
  EXPECT_EQ(classify(points).form, CurveForm::kGrowth);
}

TEST(Growth, FewPointsAreTooFew) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 15; ++i) points.push_back({i * 1.0, i * kMiB, i * kMiB});
  EXPECT_EQ(classify(points).form, CurveForm::kTooShort);
  EXPECT_EQ(classify({}).form, CurveForm::kTooShort);
}

TEST(Growth, PointsOfOneInstantAreTooFew) {
  const std::vector<CurvePoint> points(100, CurvePoint{1, kMiB, kMiB});
  EXPECT_EQ(classify(points).form, CurveForm::kTooShort);
}

Sample sample_at(double seconds, double mib, int64_t steps) {
  Sample sample;
  sample.seconds = seconds;
  sample.held = sample.held_low = static_cast<int64_t>(mib * kMiB);
  sample.steps = steps;
  return sample;
}

TEST(Growth, IsDividedByTheStepsThatTheOutputShowed) {
  std::vector<Sample> samples;
  // A long start, then 2 MiB a step, four steps a second.
  for (int i = 0; i < 60; ++i) samples.push_back(sample_at(i, std::min(i * 20, 500), 0));
  for (int i = 60; i < 160; ++i) samples.push_back(sample_at(i, 500 + 8 * (i - 60), 4 * (i - 59)));
  const Growth growth = find_growth(samples);
  EXPECT_EQ(growth.form, CurveForm::kGrowth);
  EXPECT_EQ(growth.from_seconds, 60);
  EXPECT_NEAR(growth.bytes_per_step, 2 * kMiB, 0.05 * kMiB);
  EXPECT_NEAR(growth.bytes_per_minute, 480 * kMiB, 5 * kMiB);
  EXPECT_EQ(growth.bytes_per_epoch, 0);
}

TEST(Growth, ALongEndAfterTheLastStepIsNotJudged) {
  std::vector<Sample> samples;
  for (int i = 0; i < 60; ++i) samples.push_back(sample_at(i, 500 + 8 * i, i + 1));
  for (int i = 60; i < 100; ++i) samples.push_back(sample_at(i, 980, 60));
  const Growth growth = find_growth(samples);
  EXPECT_EQ(growth.form, CurveForm::kGrowth);
  EXPECT_NEAR(growth.bytes_per_step, 8 * kMiB, 0.2 * kMiB);
}

TEST(Growth, ALongStartIsNoGrowthOnceStepsAreKnown) {
  std::vector<Sample> samples;
  for (int i = 0; i < 80; ++i) samples.push_back(sample_at(i, i * 10, 0));
  for (int i = 80; i < 110; ++i) samples.push_back(sample_at(i, 800, i));
  EXPECT_EQ(find_growth(samples).form, CurveForm::kNoGrowth);
}

// Start-up that rises quickly, steps over `progress` points of `mib_per_step` each, then an end
// that idles, as an interpreter's does that clears up.
std::vector<Sample> short_run(int progress, double mib_per_step, int idle) {
  std::vector<Sample> samples;
  for (int i = 0; i < 40; ++i) samples.push_back(sample_at(i * 0.05, std::min(i * 12, 400), 0));
  for (int i = 0; i < progress; ++i) {
    samples.push_back(sample_at(2 + i * 0.05, 400 + mib_per_step * i, i + 1));
  }
  const Sample last = samples.back();
  for (int i = 1; i <= idle; ++i) {
    samples.push_back(
        sample_at(last.seconds + i * 0.05, 400 + mib_per_step * progress, last.steps));
  }
  return samples;
}

TEST(Growth, OfFewStepsIsNotHiddenByALongIdleEnd) {
  const Growth growth = find_growth(short_run(14, 30, 60));
  EXPECT_EQ(growth.form, CurveForm::kGrowth);
  EXPECT_LE(growth.to_seconds, 2.66);
  EXPECT_NEAR(growth.bytes_per_step, 30 * kMiB, 0.1 * 30 * kMiB);
}

TEST(Growth, OfFewStepsIsJudgedBySixteenPointsAtLeast) {
  const Growth growth = find_growth(short_run(14, 0, 60));
  EXPECT_EQ(growth.form, CurveForm::kNoGrowth);
  EXPECT_NEAR(growth.from_seconds, 1.9, 0.01);
  std::vector<Sample> samples = short_run(14, 30, 60);
  samples.erase(samples.begin(), samples.begin() + 40);
  EXPECT_EQ(find_growth(samples).form, CurveForm::kTooShort);
}

TEST(Growth, OneMarkAloneBoundsNothing) {
  std::vector<Sample> samples;
  for (int i = 0; i < 100; ++i) samples.push_back(sample_at(i, 500 + 8 * i, i < 4 ? 0 : 1));
  const Growth growth = find_growth(samples);
  EXPECT_EQ(growth.form, CurveForm::kGrowth);
  EXPECT_EQ(growth.to_seconds, 99);
  EXPECT_EQ(growth.bytes_per_step, 0);
}

// Importing, building a model and reading data rise without end, and then the command ends.
TEST(Growth, OfAShortRunWithoutStepsMayBeLoading) {
  std::vector<Sample> samples;
  for (int i = 0; i < 100; ++i) samples.push_back(sample_at(i * 0.05, 5 * i, 0));
  EXPECT_EQ(find_growth(samples).form, CurveForm::kTooShort);
  EXPECT_EQ(find_growth(samples).bytes_per_minute, 0);
  EXPECT_GT(find_growth(samples).rise_bytes, 0);
  for (int i = 0; i < 100; ++i) samples[i].seconds = i * 0.5;
  EXPECT_EQ(find_growth(samples).form, CurveForm::kGrowth);
}

TEST(Growth, OfAStartFollowedByAFewHastySteps) {
  std::vector<Sample> samples;
  for (int i = 0; i < 40; ++i) samples.push_back(sample_at(i * 0.05, i * 12, 0));
  for (int i = 0; i < 6; ++i) samples.push_back(sample_at(2 + i * 0.05, 480 + 40 * i, 7 * i + 7));
  EXPECT_EQ(find_growth(samples).form, CurveForm::kTooShort);
}

// `speed(time)`: steps a second at 0 … 1 of 80 seconds; 3 MiB a step.
Growth leak_at_speed(const std::function<double(double)>& speed) {
  std::vector<Sample> samples;
  double steps = 1;
  for (int i = 0; i < 160; ++i) {
    samples.push_back(sample_at(i * 0.5, 300 + 3 * steps, static_cast<int64_t>(steps)));
    steps += 0.5 * speed(i / 160.0);
  }
  return find_growth(samples);
}

TEST(Growth, IsStraightOverTheStepsWhateverTheirSpeed) {
  const std::function<double(double)> speeds[] = {
      [](double) { return 8.0; },
      [](double t) { return t < 0.25 ? 1.0 : 8.0; },
      [](double t) { return 12 - 10 * t; },
      [](double t) { return t < 0.4 ? 9.0 : 3.0; },
      [](double t) { return std::fmod(t * 7, 1.0) < 0.5 ? 3.0 : 9.0; },
  };
  for (const auto& speed : speeds) {
    const Growth growth = leak_at_speed(speed);
    EXPECT_EQ(growth.form, CurveForm::kGrowth);
    EXPECT_NEAR(growth.bytes_per_step, 3 * kMiB, 0.15 * kMiB);
    EXPECT_GE(growth.confidence, 0.9);
  }
}

// Six marks of a program that prints every tenth step, on a machine that becomes slow.
TEST(Growth, IsStraightOverFewMarksToo) {
  std::vector<Sample> samples;
  double steps = 1;
  for (int i = 0; i < 200; ++i) {
    const int64_t printed = static_cast<int64_t>(steps) / 10 * 10 + 1;
    samples.push_back(sample_at(i * 0.1, 200 + 1.2 * steps, std::min<int64_t>(printed, 51)));
    steps += i < 70 ? 0.5 : 0.18;
  }
  const Growth growth = find_growth(samples);
  EXPECT_EQ(growth.form, CurveForm::kGrowth);
  EXPECT_NEAR(growth.bytes_per_step, 1.2 * kMiB, 0.3 * kMiB);
}

TEST(Growth, ACountThatJumpsBendsNothingMuch) {
  std::vector<Sample> samples;
  for (int i = 0; i < 120; ++i) {
    samples.push_back(sample_at(i, 300 + 5 * i, i < 60 ? i + 1 : 100'000 + i));
  }
  EXPECT_EQ(find_growth(samples).form, CurveForm::kGrowth);
}

}  // namespace
}  // namespace plimsoll::watch
