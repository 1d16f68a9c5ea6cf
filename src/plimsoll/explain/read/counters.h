#pragma once

// What is counted while the log streams by, because its lines are too many to keep: chunks of an
// allocator's dump and figures that a program prints about its own memory.
//
// A dump may have millions of chunk lines; only sums, the largest free chunk and the largest holder
// stay. Of a memory series at most kSeriesPoints evenly spread points stay.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::explain {

struct ChunkCounts {
  int64_t free_bytes = 0;  // sum over free chunk lines
  int64_t largest_free = 0;
  int64_t largest_free_line = 0;
  int64_t free_chunks = 0;
  int64_t used_bytes = 0;  // sum over used chunk lines
  int64_t used_chunks = 0;
  int64_t summary_bytes = 0;  // of "K Chunks of size N totalling S"
  int64_t summary_chunks = 0;
  int64_t holder_bytes = 0;  // the size class that holds most
  int64_t holder_size = 0;
  int64_t holder_chunks = 0;
  int64_t holder_line = 0;
  int64_t bins_allocated = 0;  // sums over the bin lines
  int64_t bins_in_use = 0;
  int64_t bin_lines = 0;
  int64_t first_line = 0;
  int64_t last_line = 0;
  bool operator==(const ChunkCounts&) const = default;
};

class ChunkCounter {
 public:
  // A line that mentions chunks. A new dump (bins after chunks, or a smaller first bin) starts
  // anew. A long line that ends within a figure waits for the next one, which may be its rest.
  void add(int64_t line, std::string_view text);
  // The line after such a one, whatever it is; `is_new`: it begins a record of its own.
  void add_after(std::string_view text, bool is_new);
  bool waits() const { return !waiting_.empty(); }
  void finish() { count_waiting(); }
  const ChunkCounts& counts() const { return counts_; }

 private:
  void count(int64_t line, std::string_view text);
  bool count_sized(int64_t line, std::string_view text);
  void count_waiting();
  void add_bin(int64_t line, std::string_view text);
  void add_summary(int64_t line, std::string_view text, size_t at, size_t size_at);
  void add_chunk(int64_t line, bool free, int64_t size);
  void add_free(int64_t line, int64_t size);
  void note_line(int64_t line);

  ChunkCounts counts_;
  std::string waiting_;
  int64_t waiting_line_ = 0;
};

struct SeriesPoint {
  int64_t line = 0;
  double bytes = 0;
  bool operator==(const SeriesPoint&) const = default;
};

// How a series of memory figures moves. Growth is called only when a rank test is significant and
// the rise goes on to the end; a curve that flattens is a plateau.
struct SeriesTrend {
  bool grows = false;
  double slope_bytes = 0;  // per printed figure: median of pairwise slopes
  double first_bytes = 0;
  double last_bytes = 0;
  int64_t points = 0;
  int64_t first_line = 0;
  int64_t last_line = 0;
};

class MemorySeries {
 public:
  // kAny: the memory of a process as it is usually called; kDevice: what is in use of a device.
  enum class Kind { kAny, kDevice };
  explicit MemorySeries(Kind kind = Kind::kAny) : kind_(kind) {}
  void add(int64_t line, std::string_view text);
  SeriesTrend trend() const;

 private:
  static constexpr size_t kSeriesPoints = 256;
  Kind kind_;
  std::vector<SeriesPoint> points_;
  int64_t seen_ = 0;
  int64_t stride_ = 1;
};

}  // namespace plimsoll::explain
