#include "plan/search/phase_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace plimsoll::plan {
namespace {

// Changes between two prices.
constexpr int64_t kPriceStep = 256;
// A change that touches more values than most do counts as several: by so many values as one.
constexpr int64_t kTouchedByMost = 64;
constexpr int64_t kTouchedPerChange = 4;
// What does not come within the limit is searched on at so many times the price, so many times.
constexpr double kRaise = 4;
constexpr int kRaises = 4;
// The most of values times places.
constexpr size_t kMostCells = size_t{1} << 22;

int64_t count_as(int64_t touched) {
  return touched <= kTouchedByMost ? 1 : touched / kTouchedPerChange;
}

}  // namespace

bool PhaseSearch::is_too_large(const PhaseModel& model) {
  if (model.values.size() * model.places.size() > kMostCells) return true;
  // In a place a value is needed by those that read it there and by what is made of it again.
  std::vector<int64_t> most(model.values.size());
  for (size_t v = 0; v < model.values.size(); ++v) {
    for (const PhaseModel::Readers& reader : model.values[v].readers) most[v] += reader.count;
    for (int operand : model.values[v].operands) ++most[static_cast<size_t>(operand)];
  }
  return std::ranges::any_of(
      most, [](int64_t count) { return count > std::numeric_limits<uint16_t>::max(); });
}

PhaseSearch::PhaseSearch(const PhaseModel& model)
    : model_(model),
      places_(static_cast<int>(model.places.size())),
      words_((model.places.size() + 63) / 64),
      most_(std::numeric_limits<int64_t>::max()),
      profile_(model.fixed),
      added_(model.fixed.size()),
      need_(model.values.size() * model.places.size()),
      needed_(model.values.size() * words_) {
  choice_.again.resize(needed_.size());
  choice_.in_form.resize(model.values.size());
  for (size_t v = 0; v < model.values.size(); ++v) {
    const PhaseModel::Value& value = model.values[v];
    for (const PhaseModel::Readers& reader : value.readers) {
      uint16_t& need = need_[cell(static_cast<int>(v), reader.place)];
      need = static_cast<uint16_t>(need + reader.count);
      needed_[word(static_cast<int>(v), reader.place)] |= bit(reader.place);
    }
    const bool read_later = std::ranges::any_of(
        value.readers, [&](const PhaseModel::Readers& r) { return r.place > value.made; });
    if (read_later && value.latest > value.made) open_.push_back(static_cast<int>(v));
    if (read_later || !is_slice(static_cast<int>(v), value.made)) {
      const int last = last_needed(static_cast<int>(v), value.made, places_);
      add(value.made, last + 1, value.bytes);
    }
  }
}

void PhaseSearch::add(int begin, int end, int64_t bytes) {
  int64_t over = 0;
  const int64_t most = most_;
  for (int p = begin; p < end; ++p) {
    int64_t& here = profile_[static_cast<size_t>(p)];
    const int64_t before = std::max<int64_t>(0, here - most);
    here += bytes;
    over += std::max<int64_t>(0, here - most) - before;
  }
  over_ += over;
}

int PhaseSearch::next_needed(int value, int from) const {
  const size_t first = static_cast<size_t>(value) * words_;
  uint64_t within = ~uint64_t{0} << (static_cast<unsigned>(from) % 64);
  for (size_t w = static_cast<size_t>(from) / 64; w < words_; ++w) {
    const uint64_t bits = needed_[first + w] & std::exchange(within, ~uint64_t{0});
    if (bits != 0) return static_cast<int>(w * 64) + std::countr_zero(bits);
  }
  return places_;
}

int PhaseSearch::last_needed(int value, int after, int before) const {
  const size_t first = static_cast<size_t>(value) * words_;
  uint64_t within = bit(before) - 1;
  for (size_t w = static_cast<size_t>(before) / 64 + 1; w-- > static_cast<size_t>(after) / 64;) {
    const uint64_t mask = std::exchange(within, ~uint64_t{0});
    const uint64_t bits = w < words_ ? needed_[first + w] & mask : 0;
    if (bits != 0) return std::max(after, static_cast<int>(w * 64) + 63 - std::countl_zero(bits));
  }
  return after;
}

bool PhaseSearch::is_slice(int value, int place) const {
  return model_.values[static_cast<size_t>(value)].sliced &&
         model_.places[static_cast<size_t>(place)].loop;
}

// A copy lies from where it is made to where it is read for the last time, and nowhere if that is
// one iteration of a loop. Another use at `place` changes it between the uses before and after it.
void PhaseSearch::change_use(int value, int place, Use from, Use to) {
  const PhaseModel::Value& entry = model_.values[static_cast<size_t>(value)];
  if (place <= entry.made) return;
  const int next = next_needed(value, place + 1);
  const bool read_later = next < places_ && !is_again(value, next);
  const int64_t more = to == Use::kNone ? -entry.bytes : entry.bytes;
  const Use other = to == Use::kNone ? from : to;
  if (from != Use::kNone && to != Use::kNone) {
    const bool here = read_later || !is_slice(value, place);
    add(first_missed(value, place), here ? place : place + 1,
        to == Use::kAgain ? -entry.bytes : entry.bytes);
  } else if (other == Use::kAgain && read_later) {
    add(first_missed(value, place), place, -more);
  } else if (other == Use::kAgain && !is_slice(value, place)) {
    add(place, place + 1, more);
  } else if (other == Use::kKept && !read_later) {
    add(first_missed(value, place), place + 1, more);
  }
}

// Where a copy for `place` would begin to lie beyond what lies there for the uses before.
int PhaseSearch::first_missed(int value, int place) const {
  const int made = model_.values[static_cast<size_t>(value)].made;
  const int before = last_needed(value, made, place);
  const bool alone = before == made || is_again(value, before);
  return alone && is_slice(value, before) ? before : before + 1;
}

bool PhaseSearch::may_be_made(int value, int place) const {
  const PhaseModel::Value& v = model_.values[static_cast<size_t>(value)];
  return place > v.made && place <= v.latest;
}

// Of a place that does not need it: whether a copy lies there for a later one.
bool PhaseSearch::is_covered(int value, int place) const {
  const int next = next_needed(value, place);
  return next < places_ && !is_again(value, next);
}

// Most of what is cheap is made again, unless it is there anyway.
void PhaseSearch::decide(int value, int place) {
  const auto v = static_cast<size_t>(value);
  const size_t dice = draw(8);
  bool again = may_be_made(value, place);
  if (again && is_covered(value, place)) {
    again = dice == 0;
  } else if (again) {
    again = model_.values[v].cheap ? dice != 0 : dice < 4;
  }
  uint64_t& bits = choice_.again[word(value, place)];
  bits = again ? bits | bit(place) : bits & ~bit(place);
}

void PhaseSearch::change_need(int value, int place, int by, Fresh fresh) {
  ++touched_;
  const auto v = static_cast<size_t>(value);
  const size_t here = cell(value, place);
  const int before = need_[here];
  if (before == 0 && fresh == Fresh::kDraw) decide(value, place);
  need_[here] = static_cast<uint16_t>(before + by);
  if (before != 0 && need_[here] != 0) return;
  needed_[word(value, place)] ^= bit(place);
  if (is_again(value, place)) {
    nanoseconds_ += by * model_.values[v].nanoseconds;
    for (int operand : model_.values[v].operands)
      change_need(operand, place, by > 0 ? 1 : -1, fresh);
  }
  const Use use = is_again(value, place) ? Use::kAgain : Use::kKept;
  change_use(value, place, before == 0 ? Use::kNone : use, before == 0 ? use : Use::kNone);
}

void PhaseSearch::flip(int value, int place, Fresh fresh) {
  const auto v = static_cast<size_t>(value);
  choice_.again[word(value, place)] ^= bit(place);
  const bool again = is_again(value, place);
  nanoseconds_ += again ? model_.values[v].nanoseconds : -model_.values[v].nanoseconds;
  for (int operand : model_.values[v].operands) change_need(operand, place, again ? 1 : -1, fresh);
  change_use(value, place, again ? Use::kKept : Use::kAgain, again ? Use::kAgain : Use::kKept);
}

void PhaseSearch::flip_form(int value) {
  const auto v = static_cast<size_t>(value);
  const PhaseModel::Value& entry = model_.values[v];
  const bool in_form = choice_.in_form[v] == 0;
  choice_.in_form[v] = in_form ? 1 : 0;
  nanoseconds_ += in_form ? entry.form_nanoseconds : -entry.form_nanoseconds;
  for (const PhaseModel::Readers& reader : entry.form_readers) {
    change_need(value, reader.place, in_form ? -reader.count : reader.count, Fresh::kAsChosen);
  }
  add(entry.made, entry.form_readers.back().place + 1,
      in_form ? entry.form_bytes : -entry.form_bytes);
}

int64_t PhaseSearch::cost() const {
  // Bytes times places are in kilobytes for the price: they reach beyond 2^50.
  return nanoseconds_ + static_cast<int64_t>(static_cast<double>(over_ >> 10) * price_);
}

// One change; taken back where it is worse by more than the threshold.
bool PhaseSearch::try_change(int64_t threshold) {
  const int value = open_[draw(open_.size())];
  const auto v = static_cast<size_t>(value);
  const PhaseModel::Value& entry = model_.values[v];
  const int64_t before = cost();
  if (!entry.form.empty() && draw(8) == 0) {
    flip_form(value);
    if (cost() <= before + threshold) return true;
    flip_form(value);
    return false;
  }
  // The next place after a random one that needs it.
  const int span = places_ - entry.made - 1;
  const int from = entry.made + 1 + static_cast<int>(draw(static_cast<size_t>(span)));
  int place = next_needed(value, from);
  if (place == places_) place = next_needed(value, entry.made + 1);
  if (place > entry.latest) return false;
  flip(value, place, Fresh::kDraw);
  if (cost() <= before + threshold) return true;
  flip(value, place, Fresh::kAsChosen);
  return false;
}

void PhaseSearch::price(int64_t most) {
  most_ = most;
  over_ = 0;
  for (int64_t here : profile_) over_ += std::max<int64_t>(0, here - most);
}

void PhaseSearch::restore(const Choice& choice) {
  for (int v = 0; v < std::ssize(model_.values); ++v) {
    for (int p = 0; p < places_; ++p) {
      if (((choice_.again[word(v, p)] ^ choice.again[word(v, p)]) & bit(p)) == 0) continue;
      if (is_needed(v, p)) {
        flip(v, p, Fresh::kAsChosen);
      } else {
        choice_.again[word(v, p)] ^= bit(p);
      }
    }
    const auto at = static_cast<size_t>(v);
    if (choice_.in_form[at] != choice.in_form[at]) flip_form(v);
  }
}

int64_t PhaseSearch::improve(int64_t most, int64_t changes, const Cooling& how) {
  if (open_.empty()) return 0;
  price(most);
  const Choice start = choice_;
  const int64_t over = over_;
  const int64_t took = nanoseconds_;
  int64_t all = 0;
  for (const PhaseModel::Value& value : model_.values) all += value.nanoseconds;
  // A limit passed by a hundredth in one place costs as much as a hundredth of all that could be
  // made again.
  const double full =
      static_cast<double>(all) / static_cast<double>(std::max<int64_t>(1, most >> 10));
  const auto threshold = static_cast<int64_t>(how.threshold * static_cast<double>(all));
  settle(changes, full, how, threshold);
  // Where few values are large, one step down may take more time than that.
  double higher = full;
  int64_t taken = changes;
  for (int raise = 0; raise < kRaises && over_ > 0; ++raise) {
    higher *= kRaise;
    settle(changes / kRaises, higher, {.first_price = 1, .rising = 0}, threshold);
    taken += changes / kRaises;
  }
  if (over_ > over || (over_ == over && nanoseconds_ > took)) restore(start);
  return taken;
}

// Ends with the best choice that was met at the full price.
void PhaseSearch::settle(int64_t changes, double full, const Cooling& how, int64_t threshold) {
  Choice best;
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t next_price = 0;
  int64_t touched = touched_;
  for (int64_t change = 0; change < changes;
       change += count_as(touched_ - std::exchange(touched, touched_))) {
    const double left = 1.0 - static_cast<double>(change) / static_cast<double>(changes);
    if (change >= next_price) {
      next_price = change - change % kPriceStep + kPriceStep;
      const double rise = how.rising > 0 ? std::max(0.0, 1.0 - (1.0 - left) / how.rising) : 0.0;
      price_ = full * std::pow(how.first_price, rise);
      if (rise == 0 && least == std::numeric_limits<int64_t>::max()) {
        least = cost();
        best = choice_;
      }
    }
    const auto worse = static_cast<int64_t>(static_cast<double>(threshold) * left * left);
    if (try_change(worse) && least != std::numeric_limits<int64_t>::max() && cost() < least) {
      least = cost();
      best = choice_;
    }
  }
  if (least != std::numeric_limits<int64_t>::max()) restore(best);
}

void PhaseSearch::correct(const std::vector<int64_t>& more) {
  for (size_t p = 0; p < profile_.size(); ++p) {
    profile_[p] += more[p];
    added_[p] += more[p];
  }
}

void PhaseSearch::return_to(const State& state) {
  restore(state.choice);
  for (size_t p = 0; p < profile_.size(); ++p) profile_[p] += state.added[p] - added_[p];
  added_ = state.added;
}

int64_t PhaseSearch::peak() const {
  return profile_.empty() ? 0 : *std::ranges::max_element(profile_);
}

std::vector<Cut> PhaseSearch::cuts() const {
  std::vector<Cut> cuts;
  for (int v = 0; v < std::ssize(model_.values); ++v) {
    const PhaseModel::Value& value = model_.values[static_cast<size_t>(v)];
    if (choice_.in_form[static_cast<size_t>(v)] != 0) {
      const auto place = static_cast<size_t>(value.form_readers.front().place);
      cuts.push_back({value.id, model_.places[place].anchor, CutKind::kForm, value.form});
    }
    for (int p = value.made + 1; p < places_; ++p) {
      if (!is_needed(v, p) || !is_again(v, p)) continue;
      cuts.push_back(
          {value.id, model_.places[static_cast<size_t>(p)].anchor, CutKind::kRecompute, ""});
    }
  }
  return cuts;
}

}  // namespace plimsoll::plan
