#include "codec/lzf.h"

#include <algorithm>
#include <vector>

namespace plimsoll::codec {
namespace {

constexpr size_t kFarthest = 8192;
constexpr size_t kPieceBytes = 64 << 10;
constexpr size_t kLongest = 264;  // of a run

// What one control byte asks for.
struct Run {
  size_t length = 0;
  size_t distance = 0;  // 0: bytes as they are
};

// Takes a run's head by `take`, which gives the next byte, or -1 at the end.
template <typename Take>
bool take_run(int control, Take&& take, Run& run) {
  if (control < 32) {
    run = {static_cast<size_t>(control) + 1, 0};
    return true;
  }
  run.length = static_cast<size_t>(control >> 5);
  if (run.length == 7) {
    const int more = take();
    if (more < 0) return false;
    run.length += static_cast<size_t>(more);
  }
  run.length += 2;
  const int low = take();
  if (low < 0) return false;
  run.distance = (static_cast<size_t>(control & 31) << 8) + static_cast<size_t>(low) + 1;
  return true;
}

// The bytes of a source one by one.
class ByteInput {
 public:
  explicit ByteInput(const ByteReader& source) : source_(source), buffer_(kPieceBytes) {}
  int take() {
    if (at_ == end_ && !refill()) return -1;
    return std::to_integer<int>(buffer_[at_++]);
  }

 private:
  bool refill() {
    const int64_t left = source_.size() - offset_;
    if (left <= 0) return false;
    at_ = 0;
    end_ = static_cast<size_t>(std::min<int64_t>(left, kPieceBytes));
    source_.read_at(offset_, std::span(buffer_).first(end_));
    offset_ += static_cast<int64_t>(end_);
    return true;
  }

  const ByteReader& source_;
  std::vector<std::byte> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  int64_t offset_ = 0;
};

}  // namespace

int64_t lzf_decompress_block(std::span<const std::byte> source, std::span<std::byte> destination) {
  size_t at = 0;
  size_t end = 0;
  const auto take = [&] { return at < source.size() ? std::to_integer<int>(source[at++]) : -1; };
  while (at < source.size()) {
    Run run;
    if (!take_run(take(), take, run) || run.length > destination.size() - end) return -1;
    if (run.distance > end || (run.distance == 0 && run.length > source.size() - at)) return -1;
    for (size_t i = 0; i < run.length; ++i, ++end) {
      destination[end] = run.distance == 0 ? source[at++] : destination[end - run.distance];
    }
  }
  return static_cast<int64_t>(end);
}

int64_t lzf_decompress_stream(const ByteReader& source, int64_t max_bytes,
                              const ByteConsumer& consumer) {
  ByteInput input(source);
  const auto take = [&] { return input.take(); };
  // The last kFarthest bytes that were handed out, then those that were not.
  std::vector<std::byte> window(kFarthest + kPieceBytes);
  size_t end = kFarthest;
  int64_t total = 0;
  for (int control = take(); control >= 0; control = take()) {
    Run run;
    if (!take_run(control, take, run)) return -1;
    if (static_cast<int64_t>(run.distance) > total) return -1;  // before the start
    total += static_cast<int64_t>(run.length);
    if (total > max_bytes) return -1;
    for (size_t i = 0; i < run.length; ++i, ++end) {
      const int byte = run.distance == 0 ? take() : 0;
      if (byte < 0) return -1;
      window[end] = run.distance == 0 ? static_cast<std::byte>(byte) : window[end - run.distance];
    }
    if (end + kLongest <= window.size()) continue;
    consumer(std::span<const std::byte>(window).subspan(kFarthest, end - kFarthest));
    std::copy(window.begin() + static_cast<std::ptrdiff_t>(end - kFarthest),
              window.begin() + static_cast<std::ptrdiff_t>(end), window.begin());
    end = kFarthest;
  }
  if (end > kFarthest) {
    consumer(std::span<const std::byte>(window).subspan(kFarthest, end - kFarthest));
  }
  return total;
}

}  // namespace plimsoll::codec
