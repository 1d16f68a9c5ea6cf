#include "plan/phase_ladder.h"

#include <algorithm>
#include <cmath>
#include <iterator>

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

bool is_missed(const PhaseSearch& search, int64_t aim) { return search.peak() > aim + aim / 20; }

}  // namespace

int64_t descend(const PhaseModel& model, const PhaseLadder& ladder, const ScorePhases& score) {
  int64_t steps = ladder.steps;
  if (steps <= 0) return steps;
  const int64_t most_changes = kChangesPerValue * std::ssize(model.values);
  const int64_t each = ladder.scoring + std::min(steps / ladder.rungs,
                                                 kShareOfRungs * most_changes / kChangesPerStep);
  const int64_t rungs = std::min(ladder.rungs, steps / each);
  if (rungs < 1) return steps;
  const int64_t changes = std::min(kChangesPerStep * (steps / rungs), most_changes);
  PhaseSearch search(model);
  const auto most =
      static_cast<double>(ladder.most > 0 ? std::min(ladder.most, search.peak()) : search.peak());
  const double ratio = static_cast<double>(ladder.least) / std::max(1.0, most);
  int missed = 0;
  bool settled = false;  // the last rung made nothing better than the one before
  for (int64_t rung = 1; rung <= kMostRungs * rungs && missed < kMostMissed && steps > 0;
       rung += 1 + missed) {
    const double share = static_cast<double>(rung) / static_cast<double>(rungs);
    const auto aim = static_cast<int64_t>(most * std::pow(ratio, share));
    if (aim <= 0) break;
    if (settled && search.peak() <= aim) continue;
    const int64_t peak = search.peak();
    const int64_t nanoseconds = search.nanoseconds();
    const bool anew = rung % kRungsPerStart == 1 || rungs < kRungsPerStart;
    int64_t taken = search.improve(aim, anew ? changes * kStartShare : changes,
                                   anew ? PhaseSearch::Cooling() : kGoingOn);
    if (!anew && is_missed(search, aim)) {
      taken += search.improve(aim, changes * kStartShare, PhaseSearch::Cooling());
    }
    steps -= ladder.scoring + taken / kChangesPerStep;
    missed = is_missed(search, aim) ? missed + 1 : 0;
    settled = search.peak() == peak && search.nanoseconds() == nanoseconds;
    search.correct(score(search));
  }
  return steps;
}

}  // namespace plimsoll::plan
