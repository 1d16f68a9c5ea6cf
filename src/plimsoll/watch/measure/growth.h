#pragma once

// Does memory grow? A curve is given one of a few forms, robustly.
//
//   growth      ╱╱   rises to the end without slowing: a leak, or data that are collected
//   creep       ╭─╱  rises to the end but ever more slowly: an allocator's pools settling
//   warm_up     ╱▔▔  rises for a good part of the time, then stays
//   plateau     ▏▔▔  stays, apart from the very beginning or a step or two
//   no_growth   ▔▔▔  stays from the beginning
//   sawtooth    ╱|╱| falls back again and again to the same floor
//   spike       ▁│▁  one short excursion
//   too_short        fewer than kFewestPoints instants, or a rise that may be the program's loading
//
// The curve is cut into equal bins; what is judged is the *floor* (the lowest level in a bin),
// since caches and garbage rise and fall above it while a leak lifts it. A sawtooth whose floor
// rises is growth. Slopes are medians of pairwise slopes (Theil and Sen), so single outliers do not
// matter. Growth is never called on a curve whose last part is flat.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "watch/measure/sample.h"

namespace plimsoll::watch {

enum class CurveForm {
  kTooShort,
  kNoGrowth,
  kPlateau,
  kWarmUp,
  kSawtooth,
  kSpike,
  kAllocatorCreep,
  kGrowth,
};
std::string_view to_string(CurveForm form);

struct CurvePoint {
  double seconds = 0;
  double low = 0;   // bytes
  double high = 0;  // bytes; equal to `low` where nothing was merged
};

struct Growth {
  static constexpr size_t kFewestPoints = 16;
  // Where the output counts no work, a rise within so short a run is what loading looks like.
  static constexpr double kLoadingSeconds = 20;

  CurveForm form = CurveForm::kTooShort;
  double confidence = 0;
  double from_seconds = 0;  // the part of the run that was judged
  double to_seconds = 0;
  double rise_bytes = 0;        // of the floor over the last three quarters of that part
  double bytes_per_minute = 0;  // slope there; 0 unless the form is growth or creep
  double level_bytes = 0;       // of the floor at the end
  double swing_bytes = 0;       // height of the teeth or of the spike
  // The slope for each thing that the output counted in that part; 0 where it counted none.
  double bytes_per_step = 0;
  double bytes_per_epoch = 0;
  double bytes_per_fit = 0;
  bool operator==(const Growth&) const = default;
};

// Points in the order of time. A fall in the last instants is the command's end and not judged.
Growth classify(std::span<const CurvePoint> points);

// Judges `held` of the samples from the first to the last step or epoch that the output showed, or
// all of them where it showed fewer than two, and divides the slope by what was counted. What comes
// after the last one (saving, the interpreter's end) is never judged; of what comes before the
// first, only so much as makes kFewestPoints. Where steps were counted, the curve is drawn over the
// work done rather than over time, so that a busy machine bends no straight line; both begin and
// end at the same instants. A rise with fewer than half of kFewestPoints instants of counted work,
// or without any within kLoadingSeconds, is too short to be called.
Growth find_growth(std::span<const Sample> samples);

// Where memory ended the command at `reached` bytes: a curve that had seemed to stay well below
// them rose at last, and what of that is growth nobody saw. Then the form is too_short.
void forget_calm_before_limit(int64_t reached, Growth& growth);

}  // namespace plimsoll::watch
