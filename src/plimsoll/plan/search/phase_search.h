#pragma once

// Chooses in a PhaseModel what is kept and what is made again, under a number of bytes.
//
// Threshold accepting: one value at one place at a time is made again instead of kept, or the other
// way round, with all that follows for its operands; a change that makes things a little worse is
// accepted too, less and less so. What is minimized is time, and beyond the limit a price on every
// byte in every place. All is counted in whole numbers and the generator is seeded alike each time,
// so equal inputs give equal choices. Effort is counted in changes; one that changes the need for a
// long chain of values counts as several.

#include <cstdint>
#include <random>
#include <vector>

#include "plan/search/phase_model.h"

namespace plimsoll::plan {

class PhaseSearch {
 public:
  // The model must not be too large.
  explicit PhaseSearch(const PhaseModel& model);
  // Values times places, and readers of a value in one place, are bounded: for the memory of it.
  static bool is_too_large(const PhaseModel& model);

  // How the search settles.
  struct Cooling {
    double first_price = 1e-3;  // of the full price of a byte beyond the limit
    double rising = 0.7;        // it rises to the full one over this share of the changes
    double threshold = 0.001;   // worse by so much of all times is accepted at first
  };
  // Changes the choice, `changes` times, for the least time within `most` bytes, as far as they can
  // be met; it starts where the last call ended, and ends there where it finds nothing better.
  // Returns how many changes it took: more, at higher prices, where the bytes are not met at once.
  int64_t improve(int64_t most, int64_t changes, const Cooling& how);
  // Draws differently from here on: equal seeds alike.
  void reseed(uint32_t seed) { random_.seed(seed); }
  // Adds to what is fixed in each place.
  void correct(const std::vector<int64_t>& more);

  struct Choice {
    std::vector<uint64_t> again;   // per value: a bit for each place
    std::vector<uint8_t> in_form;  // per value
  };
  struct State {
    Choice choice;
    std::vector<int64_t> added;  // in each place, by correct()
  };
  State state() const { return {choice_, added_}; }
  void return_to(const State& state);

  // Only what is needed, as cuts of the tree.
  std::vector<Cut> cuts() const;

  int64_t nanoseconds() const { return nanoseconds_; }
  // How often a change changed the need for a value, in all calls: what takes their time.
  int64_t touched() const { return touched_; }
  int64_t peak() const;
  const std::vector<int64_t>& profile() const { return profile_; }

 private:
  // How a value is had at a place.
  enum class Use : uint8_t { kNone, kKept, kAgain };
  // What is told of a value that was not needed at a place and now is.
  enum class Fresh : uint8_t { kAsChosen, kDraw };

  void add(int begin, int end, int64_t bytes);
  void change_use(int value, int place, Use from, Use to);
  int first_missed(int value, int place) const;
  bool is_slice(int value, int place) const;
  // The first place from `from` on that needs the value; `places_`: none.
  int next_needed(int value, int from) const;
  // The last one after `after` and before `before`; `after`: none.
  int last_needed(int value, int after, int before) const;
  void change_need(int value, int place, int by, Fresh fresh);
  void decide(int value, int place);
  void flip(int value, int place, Fresh fresh);
  void flip_form(int value);
  size_t cell(int value, int place) const {
    return static_cast<size_t>(value) * static_cast<size_t>(places_) + static_cast<size_t>(place);
  }
  size_t word(int value, int place) const {
    return static_cast<size_t>(value) * words_ + static_cast<size_t>(place) / 64;
  }
  static uint64_t bit(int place) { return uint64_t{1} << (static_cast<unsigned>(place) % 64); }
  bool is_again(int value, int place) const {
    return (choice_.again[word(value, place)] & bit(place)) != 0;
  }
  bool is_needed(int value, int place) const { return need_[cell(value, place)] != 0; }
  bool may_be_made(int value, int place) const;
  bool is_covered(int value, int place) const;
  bool try_change(int64_t threshold);
  // At a price that rises to `full`; at first what is worse by `threshold` nanoseconds is accepted.
  void settle(int64_t changes, double full, const Cooling& how, int64_t threshold);
  int64_t cost() const;
  void price(int64_t most);
  void restore(const Choice& choice);
  size_t draw(size_t below) { return random_() % below; }

  const PhaseModel& model_;
  int places_;
  size_t words_;             // of bits for all places
  int64_t nanoseconds_ = 0;  // of what is made again
  int64_t touched_ = 0;
  int64_t most_ = 0;
  int64_t over_ = 0;              // bytes times places beyond most_
  double price_ = 0;              // nanoseconds for a thousand of them
  std::vector<int64_t> profile_;  // per place
  std::vector<int64_t> added_;    // of that
  std::vector<uint16_t> need_;    // per value and place: readers, clones included
  std::vector<uint64_t> needed_;  // the same as bits: whether there are any
  std::vector<int> open_;         // values that may be made again
  Choice choice_;
  std::mt19937 random_;
};

}  // namespace plimsoll::plan
