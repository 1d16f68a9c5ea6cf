#include "explain/needles.h"

#include <string>

#include "base/error.h"

namespace plimsoll::explain {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The automaton before its states are renumbered.
struct Trie {
  size_t width;
  std::vector<int> next;  // -1: no edge
  std::vector<ClassMask> output;
  std::vector<int> fail;

  explicit Trie(size_t byte_classes) : width(byte_classes) { add_state(); }

  int add_state() {
    next.insert(next.end(), width, -1);
    output.push_back(0);
    fail.push_back(0);
    return static_cast<int>(output.size()) - 1;
  }

  int& edge(int state, size_t byte_class) {
    return next[static_cast<size_t>(state) * width + byte_class];
  }

  void insert(const Needle& needle, const uint8_t* byte_class) {
    int state = 0;
    for (char c : needle.text) {
      const size_t column = byte_class[static_cast<uint8_t>(c)];
      if (edge(state, column) < 0) {
        const int fresh = add_state();
        edge(state, column) = fresh;
      }
      state = edge(state, column);
    }
    output[static_cast<size_t>(state)] |= mask_of(needle.line_class);
  }

  // Breadth first: failure links, merged outputs, and every missing edge filled in.
  void complete() {
    std::vector<int> queue;
    for (size_t column = 0; column < width; ++column) {
      int& target = edge(0, column);
      if (target < 0) {
        target = 0;
      } else {
        queue.push_back(target);
      }
    }
    for (size_t head = 0; head < queue.size(); ++head) {
      const int state = queue[head];
      const int back = fail[static_cast<size_t>(state)];
      output[static_cast<size_t>(state)] |= output[static_cast<size_t>(back)];
      for (size_t column = 0; column < width; ++column) {
        int& target = edge(state, column);
        if (target < 0) {
          target = edge(back, column);
        } else {
          fail[static_cast<size_t>(target)] = edge(back, column);
          queue.push_back(target);
        }
      }
    }
  }
};

}  // namespace

NeedleAutomaton::NeedleAutomaton(std::span<const Needle> needles) {
  // Class 0: bytes of no needle, back to the root.
  size_t classes = 1;
  for (const Needle& needle : needles) {
    for (char c : needle.text) {
      uint8_t& entry = byte_class_[static_cast<uint8_t>(c)];
      if (entry == 0) entry = static_cast<uint8_t>(classes++);
    }
  }
  PLIMSOLL_CHECK(classes <= kByteClasses, "needles use too many different bytes");
  for (int c = 'A'; c <= 'Z'; ++c)
    byte_class_[c] = byte_class_[static_cast<uint8_t>(lower(char(c)))];

  Trie trie(kByteClasses);
  for (const Needle& needle : needles) trie.insert(needle, byte_class_);
  trie.complete();

  // States that end a needle get the highest numbers, so that one comparison finds them.
  const size_t count = trie.output.size();
  PLIMSOLL_CHECK(count < 65536, "too many needles");
  std::vector<uint16_t> number(count);
  uint16_t fresh = 0;
  for (size_t s = 0; s < count; ++s) {
    if (trie.output[s] == 0) number[s] = fresh++;
  }
  first_output_ = fresh;
  for (size_t s = 0; s < count; ++s) {
    if (trie.output[s] != 0) {
      number[s] = fresh++;
      output_.push_back(trie.output[s]);
    }
  }
  next_.resize(count * kByteClasses);
  for (size_t s = 0; s < count; ++s) {
    for (size_t column = 0; column < kByteClasses; ++column) {
      next_[size_t{number[s]} * kByteClasses + column] =
          number[static_cast<size_t>(trie.edge(static_cast<int>(s), column))];
    }
  }
}

const NeedleAutomaton& NeedleAutomaton::shared() {
  static const NeedleAutomaton automaton(all_needles());
  return automaton;
}

ClassMask NeedleScanner::scan(std::string_view text) {
  constexpr unsigned kClassBits = NeedleAutomaton::kClassBits;
  const NeedleAutomaton& table = *automaton_;
  const uint16_t* next = table.next_.data();
  const unsigned first_output = table.first_output_;
  unsigned state = state_;
  ClassMask hits = 0;
  for (char c : text) {
    state = next[(state << kClassBits) | table.byte_class_[static_cast<uint8_t>(c)]];
    if (state >= first_output) hits |= table.output_[state - first_output];
  }
  state_ = static_cast<uint16_t>(state);
  return hits;
}

}  // namespace plimsoll::explain
