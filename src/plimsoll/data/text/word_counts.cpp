#include "data/text/word_counts.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/spill_folder.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kNodeBytes = 112;        // of the table, without long text
constexpr size_t kMostRuns = 16;           // that are merged at once
constexpr size_t kBufferBytes = 96 << 10;  // of a run that is read: one word and its head fit

// A word in a run: its length, its count, its bytes.
struct Head {
  uint32_t length = 0;
  int64_t count = 0;
};
constexpr size_t kHeadBytes = sizeof(uint32_t) + sizeof(int64_t);

// Writes words one after another.
class RunWriter {
 public:
  explicit RunWriter(File& file) : file_(file) { buffer_.reserve(kBufferBytes); }
  void put(std::string_view word, int64_t count) {
    const auto length = static_cast<uint32_t>(word.size());
    append(std::as_bytes(std::span(&length, 1)));
    append(std::as_bytes(std::span(&count, 1)));
    append(std::as_bytes(std::span(word)));
  }
  int64_t finish() {
    flush();
    return end_;
  }

 private:
  void append(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) flush();
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  void flush() {
    file_.write_at(end_, buffer_);
    end_ += std::ssize(buffer_);
    buffer_.clear();
  }

  File& file_;
  std::vector<std::byte> buffer_;
  int64_t end_ = 0;
};

}  // namespace

// The words of a run in order.
class WordCounts::RunReader {
 public:
  explicit RunReader(const Run& run) : run_(run), at_(run.begin) { buffer_.resize(kBufferBytes); }

  bool next() {
    used_ += size_;
    size_ = 0;
    if (!have(kHeadBytes)) return false;
    Head head;
    std::memcpy(&head.length, buffer_.data() + used_, sizeof head.length);
    std::memcpy(&head.count, buffer_.data() + used_ + sizeof head.length, sizeof head.count);
    PLIMSOLL_CHECK(have(kHeadBytes + head.length), "a run of words that is cut short");
    size_ = kHeadBytes + head.length;
    count_ = head.count;
    return true;
  }
  std::string_view word() const {
    return {reinterpret_cast<const char*>(buffer_.data()) + used_ + kHeadBytes, size_ - kHeadBytes};
  }
  int64_t count() const { return count_; }

 private:
  // Whether so many bytes lie in the buffer after what was used, reading on where they do not.
  bool have(size_t bytes) {
    if (filled_ - used_ >= bytes) return true;
    std::memmove(buffer_.data(), buffer_.data() + used_, filled_ - used_);
    filled_ -= used_;
    used_ = 0;
    const auto room = static_cast<size_t>(
        std::min<int64_t>(run_.end - at_, static_cast<int64_t>(buffer_.size() - filled_)));
    run_.file->read_at(at_, std::span(buffer_).subspan(filled_, room));
    at_ += static_cast<int64_t>(room);
    filled_ += room;
    return filled_ - used_ >= bytes;
  }

  Run run_;
  int64_t at_;
  std::vector<std::byte> buffer_;
  size_t used_ = 0;
  size_t filled_ = 0;
  size_t size_ = 0;  // of the current word and its head
  int64_t count_ = 0;
};

WordCounts::WordCounts(std::string folder) : folder_(std::move(folder)) {}
WordCounts::~WordCounts() = default;

void WordCounts::add(std::string_view word) {
  const auto found = table_.find(word);
  if (found != table_.end()) {
    ++found->second;
    return;
  }
  table_.emplace(word, 1);
  held_ += kNodeBytes + static_cast<int64_t>(word.size());
  if (held_ > kMostHeld) flush();
}

int64_t WordCounts::peak_bytes() const {
  constexpr int64_t kSorted = 1 << 20;  // views of all words of a table
  if (most_runs_ == 0) return held_ + held_ / 4 + most_beside_;
  const auto read = static_cast<int64_t>(most_runs_ * kBufferBytes);
  // The table is gone before the words are gone through.
  return std::max(kMostHeld + std::max(kSorted, read), read + most_beside_);
}

void WordCounts::flush() {
  std::vector<std::pair<std::string_view, int64_t>> words(table_.begin(), table_.end());
  std::ranges::sort(words);
  auto file = std::make_shared<File>(File::unlinked(choose_spill_folder(folder_)));
  RunWriter writer(*file);
  for (const auto& [word, count] : words) writer.put(word, count);
  const int64_t end = writer.finish();
  runs_.push_back({std::move(file), 0, end, 0});
  table_.clear();
  held_ = 0;
  most_runs_ = std::max(most_runs_, runs_.size());
  merge_level();
}

void WordCounts::merge(const std::vector<Run>& runs, const Take& take) {
  std::vector<std::unique_ptr<RunReader>> readers;
  const auto later = [&](size_t a, size_t b) { return readers[a]->word() > readers[b]->word(); };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> queue(later);
  for (const Run& run : runs) {
    readers.push_back(std::make_unique<RunReader>(run));
    if (readers.back()->next()) queue.push(readers.size() - 1);
  }
  std::string word;
  int64_t count = 0;
  while (!queue.empty()) {
    const size_t least = queue.top();
    queue.pop();
    if (count > 0 && readers[least]->word() != word) {
      take(word, count);
      count = 0;
    }
    if (count == 0) word = readers[least]->word();
    count += readers[least]->count();
    if (readers[least]->next()) queue.push(least);
  }
  if (count > 0) take(word, count);
}

// Makes one run of the last ones where there are kMostRuns of one level.
void WordCounts::merge_level() {
  const size_t first = runs_.size() < kMostRuns ? 0 : runs_.size() - kMostRuns;
  if (runs_.size() < kMostRuns || runs_[first].level != runs_.back().level) return;
  const std::vector<Run> last(runs_.begin() + static_cast<std::ptrdiff_t>(first), runs_.end());
  auto file = std::make_shared<File>(File::unlinked(choose_spill_folder(folder_)));
  RunWriter writer(*file);
  merge(last, [&](std::string_view word, int64_t times) { writer.put(word, times); });
  const int64_t end = writer.finish();
  runs_.resize(first);
  runs_.push_back({std::move(file), 0, end, last.front().level + 1});
  merge_level();
}

void WordCounts::for_each(const Take& take) {
  if (runs_.empty()) {
    std::vector<std::pair<std::string_view, int64_t>> words(table_.begin(), table_.end());
    std::ranges::sort(words);
    for (const auto& [word, count] : words) take(word, count);
    return;
  }
  if (!table_.empty()) flush();
  table_ = {};
  merge(runs_, take);
}

std::vector<std::string> most_frequent(WordCounts& counts, int64_t most) {
  using Ranked = std::pair<int64_t, std::string>;  // the negative count, and the word
  std::vector<Ranked> heap;                        // the least frequent on top
  int64_t texts = 0;
  const auto note = [&](size_t capacity) {
    counts.note_beside(texts + static_cast<int64_t>(capacity * sizeof(Ranked)));
  };
  counts.for_each([&](std::string_view word, int64_t count) {
    if (std::ssize(heap) == most) {
      // A later word of the same count is after the earlier one.
      if (most == 0 || -count >= heap.front().first) return;
      std::ranges::pop_heap(heap);
      texts -= text_bytes(heap.back().second);
      heap.back() = {-count, std::string(word)};
    } else {
      const size_t before = heap.capacity();
      heap.emplace_back(-count, word);
      if (heap.capacity() > before) note(before + heap.capacity());
    }
    texts += text_bytes(heap.back().second);
    note(heap.capacity());
    std::ranges::push_heap(heap);
  });
  std::ranges::sort(heap);
  std::vector<std::string> words;
  words.reserve(heap.size() + 1);
  counts.note_beside(texts + static_cast<int64_t>(heap.capacity() * sizeof(Ranked) +
                                                  words.capacity() * sizeof(std::string)));
  for (Ranked& ranked : heap) words.push_back(std::move(ranked.second));
  return words;
}

}  // namespace plimsoll::data
