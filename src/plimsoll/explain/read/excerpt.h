#pragma once

// The part of a log that is kept for parsing: candidate lines with their neighbours.
//
// Each class of lines has a budget, half for the first lines seen and half for the last ones, so a
// flood of one kind never drives out another and memory is bounded whatever the log does. Lines
// longer than kSegmentBytes come as several segments with the same number. What is dropped was
// repeated; counts stay exact.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "explain/read/patterns.h"

namespace plimsoll::explain {

constexpr size_t kSegmentBytes = 4096;

struct KeptSegment {
  int64_t line = 0;
  int32_t segment = 0;
  bool ends_line = true;
  std::string text;
  bool operator==(const KeptSegment&) const = default;
};

class Excerpt {
 public:
  // One segment of the log in order, with the classes hit in it.
  void add(int64_t line, int32_t segment, bool ends_line, std::string_view text, ClassMask hits);

  // Everything kept, in the order of the log, each segment once.
  std::vector<KeptSegment> collect() const;

  // The segment added last; empty before the first.
  std::string_view last_text() const {
    return recent_[(recent_next_ + kRecent - 1) % kRecent].segment.text;
  }

  int64_t count(LineClass line_class) const { return counts_[static_cast<size_t>(line_class)]; }

 private:
  static constexpr size_t kClasses = static_cast<size_t>(LineClass::kCount);
  static constexpr size_t kRecent = 8;

  // First in, first out; the room of what went out is used again.
  class Queue {
   public:
    size_t size() const { return count_; }
    const KeptSegment& operator[](size_t i) const {
      return slots_[(head_ + i) & (slots_.size() - 1)];
    }
    void push(const KeptSegment& segment);
    void pop();

   private:
    std::vector<KeptSegment> slots_;
    size_t head_ = 0;
    size_t count_ = 0;
  };
  struct Store {
    std::vector<KeptSegment> first;
    Queue last;
    size_t first_bytes = 0;
    size_t last_bytes = 0;
    bool first_full = false;
  };
  struct Recent {
    KeptSegment segment;
    bool kept = false;  // stored where nothing evicts it
  };

  bool keep(size_t line_class, const KeptSegment& segment);
  void keep_candidate(size_t line_class, size_t before);

  std::array<Store, kClasses> stores_;
  std::array<int64_t, kClasses> counts_{};
  std::array<Recent, kRecent> recent_;
  size_t recent_next_ = 0;
  size_t after_class_ = 0;
  int after_left_ = 0;
};

}  // namespace plimsoll::explain
