#pragma once

// How often each word of a text occurs, in memory that does not grow with the words.
//
// Words are counted in a table; when it is full it is written to an unlinked file as a run, sorted
// bytewise, and begun anew. At the end runs are merged, a few at a time: the counts are exact and
// come in the order of the words, whatever the table's size was.
//
//   words ──> table ──> run, run, run … ──> merged ──> (word, count) in order
//
// Internal to data.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"

namespace plimsoll::data {

struct TextHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// What the C library takes for a string's text, where that does not lie in the string itself.
inline int64_t text_bytes(const std::string& text) {
  constexpr size_t kInside = 15;
  return text.capacity() <= kInside ? 0 : static_cast<int64_t>(text.capacity() + 24) / 16 * 16;
}

class WordCounts {
 public:
  // The most of the table and of what merging reads through. A longer word than 64 KiB is the
  // caller's fault.
  static constexpr int64_t kMostHeld = 4 << 20;

  // Runs go to unlinked files in `folder`, once there are any; "": see base/spill_folder.h.
  explicit WordCounts(std::string folder);
  ~WordCounts();

  void add(std::string_view word);
  // The most that it has held, with what was held beside while its words were gone through.
  int64_t peak_bytes() const;
  // For whoever goes through them: that much is held now, beside what this holds.
  void note_beside(int64_t bytes) { most_beside_ = std::max(most_beside_, bytes); }
  // Hands out every word and its count, words in bytewise order. Nothing is added afterwards.
  void for_each(const std::function<void(std::string_view word, int64_t count)>& take);

 private:
  class RunReader;
  struct Run {
    std::shared_ptr<const File> file;
    int64_t begin = 0;
    int64_t end = 0;
    int level = 0;  // how often its words were merged
  };
  using Take = std::function<void(std::string_view, int64_t)>;

  void flush();
  void merge_level();
  static void merge(const std::vector<Run>& runs, const Take& take);

  std::string folder_;
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> table_;
  int64_t held_ = 0;
  size_t most_runs_ = 0;
  int64_t most_beside_ = 0;
  std::vector<Run> runs_;
};

// The `most` most frequent ones (of equal frequency the bytewise smaller), the first most frequent.
std::vector<std::string> most_frequent(WordCounts& counts, int64_t most);

}  // namespace plimsoll::data
