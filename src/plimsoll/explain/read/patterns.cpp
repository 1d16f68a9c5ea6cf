#include "explain/read/patterns.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace plimsoll::explain {
namespace {

// Leave the automaton where it is.
bool is_line_break(char c) { return c == '\n' || c == '\r'; }

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

  void insert(const Pattern& pattern, const uint8_t* byte_class) {
    int state = 0;
    for (char c : pattern.text) {
      const size_t column = byte_class[static_cast<uint8_t>(c)];
      if (edge(state, column) < 0) {
        const int fresh = add_state();
        edge(state, column) = fresh;
      }
      state = edge(state, column);
    }
    output[static_cast<size_t>(state)] |= mask_of(pattern.line_class);
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

PatternAutomaton::PatternAutomaton(std::span<const Pattern> patterns) {
  // Class 0: bytes of no pattern, back to the root. Other scripts have many bytes; several of them
  // share a class, so that words of theirs are taken for patterns now and then.
  constexpr uint8_t kScripts = 0x80;
  constexpr uint8_t kShared = 0x9f;
  size_t classes = 1;
  for (const Pattern& pattern : patterns) {
    longest_ = std::max(longest_, pattern.text.size());
    for (char c : pattern.text) {
      PLIMSOLL_CHECK(!is_line_break(c), "a pattern holds a line's end");
      const auto byte = static_cast<uint8_t>(c);
      uint8_t& entry = byte_class_[byte < kScripts ? byte : byte & kShared];
      if (entry == 0) entry = static_cast<uint8_t>(classes++);
    }
  }
  for (unsigned byte = kScripts; byte < 256; ++byte)
    byte_class_[byte] = byte_class_[byte & kShared];
  const size_t line_break = classes++;
  byte_class_[size_t{'\n'}] = byte_class_[size_t{'\r'}] = static_cast<uint8_t>(line_break);
  PLIMSOLL_CHECK(classes <= kByteClasses, "patterns use too many different bytes");
  for (int c = 'A'; c <= 'Z'; ++c)
    byte_class_[c] = byte_class_[static_cast<uint8_t>(lower(char(c)))];

  Trie trie(kByteClasses);
  for (const Pattern& pattern : patterns) trie.insert(pattern, byte_class_);
  trie.complete();

  // States that end a pattern get the highest numbers, so that one comparison finds them.
  const size_t count = trie.output.size();
  PLIMSOLL_CHECK(count < 65536, "too many patterns");
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
    next_[size_t{number[s]} * kByteClasses + line_break] = number[s];
  }
}

const PatternAutomaton& PatternAutomaton::shared() {
  static const PatternAutomaton automaton(all_patterns());
  return automaton;
}

ClassMask PatternScanner::scan(std::string_view text) {
  const PatternAutomaton& table = *automaton_;
  const unsigned first_output = table.first_output_;
  unsigned state = state_;
  ClassMask hits = 0;
  for (char c : text) {
    state = table.step(state, c);
    if (state >= first_output) hits |= table.output_[state - first_output];
  }
  state_ = state;
  return hits;
}

// The state in which a scan from the block's beginning would reach `at`: no pattern is longer than
// what is looked back on.
unsigned PatternScanner::state_before(std::string_view block, size_t at) const {
  size_t begin = at;
  for (size_t bytes = 0; begin > 0 && bytes < automaton_->longest_; --begin) {
    bytes += is_line_break(block[begin - 1]) ? 0 : 1;
  }
  unsigned state = begin == 0 ? state_ : 0;
  for (; begin < at; ++begin) state = automaton_->step(state, block[begin]);
  return state;
}

void PatternScanner::note(unsigned state, std::string_view block, size_t at, size_t lane) {
  if (state < automaton_->first_output_ || is_line_break(block[at])) return;
  const ClassMask classes = automaton_->output_[state - automaton_->first_output_];
  hits_[lane].push_back({static_cast<uint32_t>(at), classes});
}

std::span<const PatternHit> PatternScanner::scan_block(std::string_view block) {
  static_assert(kLanes == 4);
  const PatternAutomaton& table = *automaton_;
  const unsigned first_output = table.first_output_;
  const size_t length = block.size() / kLanes;
  for (std::vector<PatternHit>& hits : hits_) hits.clear();
  unsigned a = state_;
  unsigned b = state_before(block, length);
  unsigned c = state_before(block, 2 * length);
  unsigned d = state_before(block, 3 * length);
  for (size_t i = 0; i < length; ++i) {
    a = table.step(a, block[i]);
    b = table.step(b, block[length + i]);
    c = table.step(c, block[2 * length + i]);
    d = table.step(d, block[3 * length + i]);
    if (std::max(std::max(a, b), std::max(c, d)) < first_output) continue;
    note(a, block, i, 0);
    note(b, block, length + i, 1);
    note(c, block, 2 * length + i, 2);
    note(d, block, 3 * length + i, 3);
  }
  for (size_t i = kLanes * length; i < block.size(); ++i) {
    d = table.step(d, block[i]);
    note(d, block, i, 3);
  }
  state_ = d;
  for (size_t lane = 1; lane < kLanes; ++lane) {
    hits_[0].insert(hits_[0].end(), hits_[lane].begin(), hits_[lane].end());
  }
  return hits_[0];
}

}  // namespace plimsoll::explain
