#pragma once

// The part of a log that is kept for parsing: candidate lines with their neighbours.
//
// Each class of lines has a budget, half for the first lines seen and half for the last ones, so a
// flood of one kind never drives out another and memory is bounded whatever the log does. In the
// classes that tell of refusals a line that came hundreds of times, with other numbers in it, has a
// budget beside that, for the last of such lines: it drives out no line that came once. Lines
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
  static constexpr size_t kForms = 16;

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
  // The last segments of a budget.
  struct Tail {
    Queue segments;
    size_t bytes = 0;
    void push(const KeptSegment& segment, size_t budget);
  };
  struct Store {
    std::vector<KeptSegment> first;
    Tail last;
    Tail repeated;
    size_t first_bytes = 0;
    bool first_full = false;
  };
  // How often lines of one form came, of the forms that came last.
  struct Form {
    uint64_t form = 0;
    int64_t lines = 0;
    int64_t last_line = 0;
  };
  struct Recent {
    KeptSegment segment;
    bool kept = false;  // stored where nothing evicts it
  };

  bool keep(size_t line_class, const KeptSegment& segment, bool repeated);
  void keep_candidate(size_t line_class, size_t before, bool repeated);
  bool is_repeated(const KeptSegment& segment);

  std::array<Store, kClasses> stores_;
  std::array<int64_t, kClasses> counts_{};
  std::array<Recent, kRecent> recent_;
  size_t recent_next_ = 0;
  size_t after_class_ = 0;
  bool after_repeated_ = false;
  int after_left_ = 0;
  std::array<Form, kForms> forms_;
};

}  // namespace plimsoll::explain
