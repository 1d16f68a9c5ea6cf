#include "watch/measure/growth.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace plimsoll::watch {
namespace {

constexpr size_t kBins = 96;
constexpr double kMiB = 1 << 20;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_of(const std::vector<double>& values, size_t begin, size_t end) {
  return median({values.begin() + static_cast<ptrdiff_t>(begin),
                 values.begin() + static_cast<ptrdiff_t>(std::min(end, values.size()))});
}

// The curve in equal bins of time. A bin without a point takes the level of the one before.
struct Bins {
  std::vector<double> low;
  std::vector<double> high;
  size_t count() const { return low.size(); }
};

Bins cut(std::span<const CurvePoint> points) {
  const size_t count = std::min(kBins, points.size());
  const double begin = points.front().seconds;
  const double width = (points.back().seconds - begin) / static_cast<double>(count);
  Bins bins{std::vector<double>(count, -1), std::vector<double>(count, -1)};
  for (const CurvePoint& point : points) {
    const double place = width > 0 ? (point.seconds - begin) / width : 0;
    const size_t bin = std::min(count - 1, static_cast<size_t>(std::max(place, 0.0)));
    bins.low[bin] = bins.low[bin] < 0 ? point.low : std::min(bins.low[bin], point.low);
    bins.high[bin] = std::max(bins.high[bin], point.high);
  }
  for (size_t i = 1; i < count; ++i) {
    if (bins.low[i] < 0) bins.low[i] = bins.low[i - 1];
    if (bins.high[i] < 0) bins.high[i] = bins.low[i];
  }
  return bins;
}

// Median of the slopes between all pairs, in bytes per bin.
double slope(const std::vector<double>& values, size_t begin, size_t end) {
  std::vector<double> slopes;
  slopes.reserve((end - begin) * (end - begin) / 2);
  for (size_t i = begin; i < end; ++i) {
    for (size_t j = i + 1; j < end; ++j) {
      slopes.push_back((values[j] - values[i]) / static_cast<double>(j - i));
    }
  }
  return median(std::move(slopes));
}

// Typical distance of neighbours from a smooth curve, as a standard deviation.
double noise_of(const std::vector<double>& values) {
  std::vector<double> bends;
  for (size_t i = 1; i + 1 < values.size(); ++i) {
    bends.push_back(std::abs(values[i] - (values[i - 1] + values[i + 1]) / 2));
  }
  return 1.4826 * median(std::move(bends)) / 1.2247;  // var(bend) = 1.5 var(value)
}

struct Tooth {
  size_t bottom = 0;  // bin of the lowest level after a fall
  double depth = 0;
};

// Falls from a peak to the next bottom by at least `least`.
std::vector<Tooth> find_falls(const std::vector<double>& values, size_t begin, double least) {
  std::vector<Tooth> falls;
  double top = values[begin];
  double bottom = values[begin];
  size_t bottom_at = begin;
  bool falling = false;
  for (size_t i = begin; i < values.size(); ++i) {
    if (falling) {
      if (values[i] < bottom) {
        bottom = values[i];
        bottom_at = i;
      }
      if (values[i] >= bottom + least) {
        falls.push_back({bottom_at, top - bottom});
        falling = false;
        top = values[i];
      }
    } else {
      top = std::max(top, values[i]);
      if (values[i] <= top - least) {
        falling = true;
        bottom = values[i];
        bottom_at = i;
      }
    }
  }
  if (falling) falls.push_back({bottom_at, top - bottom});
  return falls;
}

// One short excursion of `high` above the level around it; replaced by that level.
struct Excursion {
  bool found = false;
  double height = 0;
};

Excursion remove_spike(Bins& bins, double tolerance) {
  const size_t count = bins.count();
  const auto top = std::max_element(bins.high.begin(), bins.high.end());
  const size_t at = static_cast<size_t>(top - bins.high.begin());
  const size_t reach = std::max<size_t>(count / 6, 3);
  // Levels before and after, outside of what a short excursion may cover.
  if (at < 2 || at + 2 >= count) return {};
  const size_t before_end = at > reach ? at - reach / 2 : at - 1;
  const double before = median_of(bins.high, before_end > reach ? before_end - reach : 0,
                                  std::max<size_t>(before_end, 1));
  const double after = median_of(bins.high, std::min(at + reach / 2 + 1, count - 1), count);
  const double level = std::max(before, after);
  const double height = *top - level;
  if (height < 6 * tolerance || height < 0.1 * level) return {};
  size_t begin = at;
  size_t end = at + 1;
  const double half = level + height / 2;
  while (begin > 0 && bins.high[begin - 1] > half) --begin;
  while (end < count && bins.high[end] > half) ++end;
  if (end - begin > count * 15 / 100 + 1) return {};
  // A bin at each side may hold the flanks.
  begin = begin > 0 ? begin - 1 : 0;
  end = std::min(end + 1, count);
  for (size_t i = begin; i < end; ++i) {
    const double level_here = i < at ? std::min(before, bins.low[i]) : std::min(after, bins.low[i]);
    bins.low[i] = level_here;
    bins.high[i] = level_here;
  }
  return {true, height};
}

// Coefficient of bending: (slope at the begin − slope at the end) / (their sum) of the parabola
// that fits [begin, end) best. 0: straight; 1: flat at the end; negative: faster and faster.
double slowing(const std::vector<double>& values, size_t begin, size_t end) {
  // Orthogonal polynomials on a symmetric grid: y = a + b u + c (u² − mean u²).
  const double n = static_cast<double>(end - begin);
  const double middle = (n - 1) / 2;
  double uu = 0, uuuu = 0;
  for (size_t i = begin; i < end; ++i) {
    const double u = static_cast<double>(i - begin) - middle;
    uu += u * u;
    uuuu += u * u * u * u;
  }
  const double mean_square = uu / n;
  double b = 0, c = 0;
  for (size_t i = begin; i < end; ++i) {
    const double u = static_cast<double>(i - begin) - middle;
    b += values[i] * u;
    c += values[i] * (u * u - mean_square);
  }
  b /= uu;
  c /= uuuu - n * mean_square * mean_square;
  if (b == 0) return 0;
  return -2 * c * middle / b;
}

struct Rise {
  double total = 0;
  double last = 0;    // in the last third
  double middle = 0;  // in the third before it
  double bend = 0;
  double largest_jumps = 0;  // the two largest rises between neighbours
};

Rise measure_rise(const std::vector<double>& floor, size_t begin) {
  const size_t count = floor.size();
  const size_t third = (count - begin) / 3;
  Rise rise;
  rise.total = slope(floor, begin, count) * static_cast<double>(count - begin);
  rise.last = slope(floor, count - third, count) * static_cast<double>(third);
  rise.middle = slope(floor, count - 2 * third, count - third) * static_cast<double>(third);
  rise.bend = slowing(floor, begin, count);
  std::vector<double> jumps;
  for (size_t i = begin + 1; i < count; ++i) jumps.push_back(floor[i] - floor[i - 1]);
  std::sort(jumps.rbegin(), jumps.rend());
  for (size_t i = 0; i < std::min<size_t>(jumps.size(), 2); ++i) {
    rise.largest_jumps += std::max(jumps[i], 0.0);
  }
  return rise;
}

// When the floor comes to stay within `tolerance` of its level at the end, as a part of the whole.
double settled_at(const std::vector<double>& floor, double tolerance) {
  const double level = median_of(floor, floor.size() * 3 / 4, floor.size());
  size_t at = floor.size();
  while (at > 0 && floor[at - 1] >= level - tolerance) --at;
  return static_cast<double>(at) / static_cast<double>(floor.size());
}

// Without the last instants in which a command that ends gives its memory back.
std::span<const CurvePoint> without_teardown(std::span<const CurvePoint> points) {
  const size_t most = std::max<size_t>(3, points.size() / 50);
  for (size_t cut = 0; cut < most && points.size() > Growth::kFewestPoints; ++cut) {
    const size_t last = points.size() - 1;
    if (points[last].low > 0.9 * points[last - 1].low) break;
    points = points.first(last);
  }
  return points;
}

class Classifier {
 public:
  Classifier(std::span<const CurvePoint> points, Growth& growth)
      : bins_(cut(points)), growth_(growth) {
    seconds_per_bin_ =
        (points.back().seconds - points.front().seconds) / static_cast<double>(bins_.count());
    begin_ = bins_.count() / 4;
    level_ = median_of(bins_.low, begin_, bins_.count());
    noise_ = noise_of(bins_.low);
    tolerance_ = std::max({0.01 * level_, 3 * noise_, 0.5 * kMiB});
  }

  void run() {
    if (judge_teeth()) return;
    const Excursion spike = remove_spike(bins_, tolerance_);
    judge_floor(bins_.low, begin_);
    if (spike.found && growth_.form != CurveForm::kGrowth &&
        growth_.form != CurveForm::kAllocatorCreep && growth_.form != CurveForm::kWarmUp) {
      set(CurveForm::kSpike, 0.85);
      growth_.swing_bytes = spike.height;
    }
  }

 private:
  void set(CurveForm form, double confidence) {
    growth_.form = form;
    growth_.confidence = confidence;
    if (form != CurveForm::kGrowth && form != CurveForm::kAllocatorCreep) {
      growth_.bytes_per_minute = 0;
    }
  }

  // A sawtooth falls back several times; its bottoms tell whether something stays.
  bool judge_teeth() {
    const auto [lowest, highest] =
        std::minmax_element(bins_.low.begin() + static_cast<ptrdiff_t>(begin_), bins_.low.end());
    const double least = std::max(2 * tolerance_, 0.25 * (*highest - *lowest));
    const std::vector<Tooth> falls = find_falls(bins_.low, begin_, least);
    if (falls.size() < 3) return false;
    std::vector<double> bottoms;
    std::vector<double> depths;
    for (const Tooth& fall : falls) {
      bottoms.push_back(bins_.low[fall.bottom]);
      depths.push_back(fall.depth);
    }
    growth_.swing_bytes = median(depths);
    const double span = static_cast<double>(falls.back().bottom - falls.front().bottom);
    const double per_tooth = slope(bottoms, 0, bottoms.size());
    const double rise = per_tooth * static_cast<double>(bottoms.size() - 1);
    growth_.level_bytes = bottoms.back();
    growth_.rise_bytes = rise;
    const bool rises = std::is_sorted(bottoms.begin(), bottoms.end()) ||
                       slope(bottoms, 0, bottoms.size() / 2 + 1) > 0;
    const size_t half = bottoms.size() / 2;
    const double late =
        slope(bottoms, half, bottoms.size()) * static_cast<double>(bottoms.size() - half - 1);
    const double enough = std::max(tolerance_, 0.2 * growth_.swing_bytes);
    if (rise > enough && rises && late > 0.25 * rise && span > 0) {
      growth_.bytes_per_minute = rise / (span * seconds_per_bin_) * 60;
      set(CurveForm::kGrowth, falls.size() >= 5 ? 0.85 : 0.65);
    } else {
      set(CurveForm::kSawtooth, falls.size() >= 5 ? 0.9 : 0.75);
    }
    return true;
  }

  void judge_floor(const std::vector<double>& floor, size_t begin) {
    const Rise rise = measure_rise(floor, begin);
    growth_.level_bytes = median_of(floor, floor.size() * 7 / 8, floor.size());
    growth_.rise_bytes = rise.total;
    const double per_bin = rise.total / static_cast<double>(floor.size() - begin);
    growth_.bytes_per_minute = seconds_per_bin_ > 0 ? per_bin / seconds_per_bin_ * 60 : 0;
    const double third = std::max(0.25 * kMiB, 1.5 * noise_);
    const double part = std::max(third, 0.002 * level_);
    const bool rises_at_end = rise.last > part && rise.last > 0.15 * rise.total;
    const double whole = floor[floor.size() - 1] - floor[begin];
    const bool in_steps = whole - rise.largest_jumps < std::max(0.3 * whole, part);
    if (rises_at_end && rise.middle > 0 && rise.total > 2 * part && !in_steps) {
      if (rise.bend > kSlowing && rise.last < rise.middle) {
        set(CurveForm::kAllocatorCreep, 0.7);
      } else {
        set(CurveForm::kGrowth, growth_confidence(rise, part));
      }
      return;
    }
    if (rises_at_end && judge_late_rise(floor)) return;
    judge_flat(floor, part);
  }

  // What rises steadily over the second half is no level to stay at, however much more came before
  // it (a library that is loaded, a first batch).
  bool judge_late_rise(const std::vector<double>& floor) {
    const size_t half = floor.size() / 2;
    if (floor.size() - half < kFewestLate) return false;
    const Rise late = measure_rise(floor, half);
    const double part = std::max({0.25 * kMiB, 1.5 * noise_, 0.005 * level_});
    const double whole = floor[floor.size() - 1] - floor[half];
    const bool in_steps = whole - late.largest_jumps < std::max(0.3 * whole, part);
    if (late.last < part || late.middle < part || in_steps || late.bend > kSlowing) return false;
    growth_.rise_bytes = late.total;
    growth_.bytes_per_minute =
        late.total / static_cast<double>(floor.size() - half) / seconds_per_bin_ * 60;
    set(CurveForm::kGrowth, std::min(growth_confidence(late, part), kLateConfidence));
    return true;
  }

  double growth_confidence(const Rise& rise, double part) const {
    const double clearness = rise.total / (4 * part);
    return std::clamp(0.55 + 0.1 * clearness, 0.55, 0.95);
  }

  void judge_flat(const std::vector<double>& floor, double part) {
    const double close = std::max(tolerance_, 0.02 * growth_.level_bytes);
    const double settled = settled_at(floor, close);
    const double start = floor.front();
    const bool rose = growth_.level_bytes - start > std::max(2 * close, 4 * part);
    const bool slowly = settled > 0.12;
    if (rose && slowly && !one_jump(floor)) {
      set(CurveForm::kWarmUp, 0.85);
    } else {
      set(rose ? CurveForm::kPlateau : CurveForm::kNoGrowth, 0.9);
    }
  }

  // Whether nearly all of the rise happened between two or three neighbours.
  static bool one_jump(const std::vector<double>& floor) {
    std::vector<double> jumps;
    for (size_t i = 1; i < floor.size(); ++i) jumps.push_back(floor[i] - floor[i - 1]);
    std::sort(jumps.rbegin(), jumps.rend());
    const double top = std::accumulate(jumps.begin(), jumps.begin() + 3, 0.0);
    const auto highest = std::max_element(floor.begin(), floor.end());
    return top > 0.7 * (*highest - floor.front());
  }

  static constexpr double kSlowing = 0.25;
  static constexpr size_t kFewestLate = 12;  // bins
  static constexpr double kLateConfidence = 0.75;

  Bins bins_;
  Growth& growth_;
  size_t begin_ = 0;
  double seconds_per_bin_ = 0;
  double level_ = 0;
  double noise_ = 0;
  double tolerance_ = 0;
};

}  // namespace

std::string_view to_string(CurveForm form) {
  switch (form) {
    case CurveForm::kTooShort:
      return "too_short";
    case CurveForm::kNoGrowth:
      return "no_growth";
    case CurveForm::kPlateau:
      return "plateau";
    case CurveForm::kWarmUp:
      return "warm_up";
    case CurveForm::kSawtooth:
      return "sawtooth";
    case CurveForm::kSpike:
      return "spike";
    case CurveForm::kAllocatorCreep:
      return "allocator_creep";
    case CurveForm::kGrowth:
      return "growth";
  }
  return "too_short";
}

Growth classify(std::span<const CurvePoint> points) {
  Growth growth;
  points = without_teardown(points);
  if (points.empty()) return growth;
  growth.from_seconds = points.front().seconds;
  growth.to_seconds = points.back().seconds;
  if (points.size() < Growth::kFewestPoints || growth.to_seconds <= growth.from_seconds) {
    return growth;
  }
  Classifier(points, growth).run();
  return growth;
}

namespace {

// Samples [begin, end) between the first and the last step or epoch that the output counted, all
// of them where it counted fewer than two.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  bool counted = false;
};

Window find_progress(std::span<const Sample> samples) {
  Window window{samples.size(), 0};
  int64_t steps = 0;
  int64_t epochs = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].steps == steps && samples[i].epochs == epochs) continue;
    steps = samples[i].steps;
    epochs = samples[i].epochs;
    window.begin = std::min(window.begin, i);
    window.end = i + 1;
  }
  // One mark alone says neither where the work ended nor how far apart its parts are.
  if (window.end < window.begin + 2) return {0, samples.size()};
  window.counted = true;
  return window;
}

// Instants by the work that was done by then, in seconds: where the output counts steps, a run that
// a neighbour slows down has no more of it in the same time. A leak is straight over this clock
// even where it bends over the other. Begins and ends with the samples' own times.
class WorkClock {
 public:
  explicit WorkClock(std::span<const Sample> progress) : progress_(progress) {
    std::vector<size_t> moves;
    for (size_t i = 1; i < progress.size(); ++i) {
      if (progress[i].steps != progress[i - 1].steps) moves.push_back(i);
    }
    times_.reserve(progress.size());
    for (const Sample& sample : progress) times_.push_back(sample.seconds);
    const double all = progress.empty() ? 0 : progress.back().seconds - progress.front().seconds;
    if (moves.size() < kFewestMoves || all <= 0) return;
    const double per_step =
        all / static_cast<double>(progress.back().steps - progress.front().steps);
    double done = progress.front().seconds;
    size_t from = 0;
    for (const size_t to : moves) {
      const double taken = progress[to].seconds - progress[from].seconds;
      const double steps = static_cast<double>(progress[to].steps - progress[from].steps);
      // A count that jumps is no work, and first steps do take long.
      const double work = std::clamp(steps * per_step, taken / kMost, taken * kMost);
      for (size_t i = from + 1; i <= to; ++i) {
        const double part = taken > 0 ? (progress[i].seconds - progress[from].seconds) / taken : 1;
        times_[i] = done + work * part;
      }
      done += work;
      from = to;
    }
    stretch(done, from);
  }

  // As many as there are samples, ascending.
  const std::vector<double>& times() const { return times_; }

 private:
  static constexpr size_t kFewestMoves = 4;
  static constexpr double kMost = 4;  // times faster or slower than the clock on the wall

  // What was clamped changed the whole; after the last move the time is as it is.
  void stretch(double done, size_t last_move) {
    const double begin = progress_.front().seconds;
    const double by = (progress_[last_move].seconds - begin) / (done - begin);
    for (size_t i = 1; i <= last_move; ++i) times_[i] = begin + (times_[i] - begin) * by;
  }

  std::span<const Sample> progress_;
  std::vector<double> times_;
};

// The points of `samples`, with the work clock from `begin` on.
std::vector<CurvePoint> points_of(std::span<const Sample> samples, size_t begin) {
  const WorkClock clock(samples.subspan(begin));
  std::vector<CurvePoint> points;
  points.reserve(samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    points.push_back({i < begin ? samples[i].seconds : clock.times()[i - begin],
                      static_cast<double>(samples[i].held_low),
                      static_cast<double>(samples[i].held)});
  }
  return points;
}

// The slope is that of the last three quarters of what was judged; so are the things counted.
// `points` are those of `progress`.
void divide_slope(std::span<const Sample> progress, std::span<const CurvePoint> points,
                  Growth& growth) {
  const double begin = growth.from_seconds + (growth.to_seconds - growth.from_seconds) / 4;
  size_t first = 0;
  while (first + 2 < points.size() && points[first].seconds < begin) ++first;
  const double minutes = (points.back().seconds - points[first].seconds) / 60;
  const auto per = [&](int64_t Sample::*counter) {
    const int64_t count = progress.back().*counter - progress[first].*counter;
    return count > 1 ? growth.bytes_per_minute * minutes / static_cast<double>(count) : 0.0;
  };
  growth.bytes_per_step = per(&Sample::steps);
  growth.bytes_per_epoch = per(&Sample::epochs);
  growth.bytes_per_fit = per(&Sample::fits);
}

// A rise that may be the start of the program alone: no work was counted, or too few instants of
// it.
bool may_be_loading(const Window& progress, const Growth& growth) {
  const bool rises = growth.form == CurveForm::kGrowth || growth.form == CurveForm::kAllocatorCreep;
  if (!rises) return false;
  if (progress.counted) return progress.end - progress.begin < Growth::kFewestPoints / 2;
  return growth.to_seconds - growth.from_seconds < Growth::kLoadingSeconds;
}

}  // namespace

Growth find_growth(std::span<const Sample> samples) {
  if (samples.empty()) return {};
  const Window progress = find_progress(samples);
  const size_t count = progress.end - progress.begin;
  const size_t more =
      count < Growth::kFewestPoints ? std::min(progress.begin, Growth::kFewestPoints - count) : 0;
  samples = samples.subspan(progress.begin - more, count + more);
  const std::vector<CurvePoint> points = points_of(samples, more);
  Growth growth = classify(points);
  if (may_be_loading(progress, growth)) {
    growth.form = CurveForm::kTooShort;
    growth.confidence = 0;
    growth.bytes_per_minute = 0;
  }
  if (growth.bytes_per_minute != 0) {
    divide_slope(samples.subspan(more), std::span(points).subspan(more), growth);
  }
  return growth;
}

void forget_calm_before_limit(int64_t reached, Growth& growth) {
  switch (growth.form) {
    case CurveForm::kNoGrowth:
    case CurveForm::kPlateau:
    case CurveForm::kWarmUp:
    case CurveForm::kSpike:
      break;
    default:
      return;
  }
  const double rise = static_cast<double>(reached) - growth.level_bytes;
  if (rise <= std::max(2 * kMiB, 0.05 * growth.level_bytes)) return;
  growth.form = CurveForm::kTooShort;
  growth.confidence = 0;
  growth.bytes_per_minute = 0;
  growth.rise_bytes = rise;
}

}  // namespace plimsoll::watch
