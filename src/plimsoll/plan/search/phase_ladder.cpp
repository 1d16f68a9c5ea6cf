#include "plan/search/phase_ladder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

namespace plimsoll::plan {
namespace {

// With those below the ladder's end, for each of its rungs.
constexpr int64_t kMostRungs = 3;
constexpr int64_t kRungsPerStart = 5;
// Times the effort of other rungs.
constexpr int64_t kStartShare = 6;
// The effort of all rungs, by that of those which go on and are met.
constexpr int64_t kShareOfRungs = 4;
// A change is counted as a hundredth of a node that is scored. It takes a third of one (0.6 to 1
// µs, 2 to 3): what it finds is worth more, and changes per value bound it.
constexpr int64_t kChangesPerStep = 100;
constexpr int64_t kChangesPerValue = 30;
// In a row, and then it ends; each leads further down, for where values are few and large there is
// nothing between one of them and none. An aim is missed by more than a twentieth.
constexpr int kMostMissed = 5;

constexpr PhaseSearch::Cooling kGoingOn{.first_price = 0.1, .rising = 0.7, .threshold = 0.001};

// An attempt aims at so much of the least, in so many rounds. All together have so much of the
// ladder's effort, and what the rungs left.
constexpr double kBelowLeast = 0.95;
constexpr int kRounds = 3;
constexpr int64_t kAttemptsShare = 4;

bool is_missed(const PhaseSearch& search, int64_t aim) { return search.peak() > aim + aim / 20; }

class Descent {
 public:
  Descent(const PhaseModel& model, const PhaseLadder& ladder, const ScorePhases& score)
      : ladder_(ladder),
        score_(score),
        most_changes_(kChangesPerValue * std::ssize(model.values)),
        search_(model) {}

  int64_t run() {
    if (ladder_.steps <= 0) return ladder_.steps;
    steps_ = ladder_.steps;
    go_down();
    if (ladder_.attempts > 0) steps_ += ladder_.steps / kAttemptsShare;
    for (int64_t a = 0; a < ladder_.attempts && least_peak_ && steps_ > 0; ++a) {
      attempt(static_cast<uint32_t>(a));
    }
    return steps_;
  }

 private:
  void go_down() {
    const int64_t each =
        ladder_.scoring +
        std::min(steps_ / ladder_.rungs, kShareOfRungs * most_changes_ / kChangesPerStep);
    const int64_t rungs = std::min(ladder_.rungs, steps_ / each);
    if (rungs < 1) return;
    changes_ = std::min(kChangesPerStep * (steps_ / rungs), most_changes_);
    const int64_t peak = search_.peak();
    const auto most = static_cast<double>(ladder_.most > 0 ? std::min(ladder_.most, peak) : peak);
    const double ratio = static_cast<double>(ladder_.least) / std::max(1.0, most);
    int missed = 0;
    bool settled = false;  // the last rung made nothing better than the one before
    for (int64_t rung = 1; rung <= kMostRungs * rungs && missed < kMostMissed && steps_ > 0;
         rung += 1 + missed) {
      const double share = static_cast<double>(rung) / static_cast<double>(rungs);
      const auto aim = static_cast<int64_t>(most * std::pow(ratio, share));
      if (aim <= 0) break;
      if (settled && search_.peak() <= aim) continue;
      const int64_t before = search_.peak();
      const int64_t took = search_.nanoseconds();
      step_to(aim, rung % kRungsPerStart == 1 || rungs < kRungsPerStart);
      missed = is_missed(search_, aim) ? missed + 1 : 0;
      settled = search_.peak() == before && search_.nanoseconds() == took;
      score();
    }
  }

  void step_to(int64_t aim, bool anew) {
    improve(aim, anew);
    if (!anew && is_missed(search_, aim)) improve(aim, true);
  }

  // The first round at a price at which nearly nothing is given up, the others going on from there.
  void attempt(uint32_t seed) {
    search_.return_to(least_);
    search_.reseed(seed);
    for (int round = 0; round < kRounds && steps_ > 0; ++round) {
      const int64_t before = search_.peak();
      const int64_t took = search_.nanoseconds();
      improve(static_cast<int64_t>(kBelowLeast * static_cast<double>(*least_peak_)), round == 0);
      if (search_.peak() == before && search_.nanoseconds() == took) return;
      score();
    }
  }

  // Anew: from such a price on, with more effort.
  void improve(int64_t aim, bool anew) {
    const int64_t taken = search_.improve(aim, anew ? changes_ * kStartShare : changes_,
                                          anew ? PhaseSearch::Cooling() : kGoingOn);
    steps_ -= taken / kChangesPerStep;
  }

  void score() {
    steps_ -= ladder_.scoring;
    search_.correct(score_(search_));
    if (least_peak_ && search_.peak() >= *least_peak_) return;
    least_ = search_.state();
    least_peak_ = search_.peak();
  }

  const PhaseLadder& ladder_;
  const ScorePhases& score_;
  const int64_t most_changes_;
  int64_t changes_ = 0;  // of a rung that goes on
  int64_t steps_ = 0;
  PhaseSearch search_;
  PhaseSearch::State least_;           // what needs least
  std::optional<int64_t> least_peak_;  // corrected
};

}  // namespace

int64_t descend(const PhaseModel& model, const PhaseLadder& ladder, const ScorePhases& score) {
  return Descent(model, ladder, score).run();
}

}  // namespace plimsoll::plan
