#include "data/image/bilinear_resize.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll::data {

BilinearResize::BilinearResize(int64_t height, int64_t width, int64_t channels)
    : channels_(channels),
      rows_(static_cast<size_t>(height)),
      columns_(static_cast<size_t>(width)),
      before_(static_cast<size_t>(width * channels)),
      newest_(before_.size()) {}

// In float32 throughout, as TensorFlow computes them.
void BilinearResize::make_taps(int64_t in_size, std::vector<Tap>& taps) {
  const float scale = static_cast<float>(in_size) / static_cast<float>(taps.size());
  for (size_t i = 0; i < taps.size(); ++i) {
    const float in = (static_cast<float>(i) + 0.5f) * scale - 0.5f;
    const float floor = std::floor(in);
    taps[i].lower = std::max<int64_t>(static_cast<int64_t>(floor), 0);
    taps[i].upper = std::min(static_cast<int64_t>(std::ceil(in)), in_size - 1);
    taps[i].weight = in - floor;
  }
}

void BilinearResize::start(int64_t in_height, int64_t in_width, float* out) {
  make_taps(in_height, rows_);
  make_taps(in_width, columns_);
  next_row_ = 0;
  out_ = out;
}

void BilinearResize::resize_row(std::span<const uint8_t> row, std::vector<float>& out) const {
  float* to = out.data();
  for (const Tap& tap : columns_) {
    const uint8_t* left = row.data() + tap.lower * channels_;
    const uint8_t* right = row.data() + tap.upper * channels_;
    for (int64_t c = 0; c < channels_; ++c) {
      const auto first = static_cast<float>(left[c]);
      *to++ = first + (static_cast<float>(right[c]) - first) * tap.weight;
    }
  }
}

void BilinearResize::write_row(const Tap& tap) {
  // Both neighbours are the newest row at the upper edge, at the lower one and without a fraction.
  const std::vector<float>& top = tap.lower == tap.upper ? newest_ : before_;
  const auto count = static_cast<int64_t>(newest_.size());
  float* out = out_ + next_row_ * count;
  for (int64_t i = 0; i < count; ++i) {
    const float first = top[static_cast<size_t>(i)];
    out[i] = first + (newest_[static_cast<size_t>(i)] - first) * tap.weight;
  }
}

void BilinearResize::take_row(int64_t y, std::span<const uint8_t> row) {
  const auto next = static_cast<size_t>(next_row_);
  if (next == rows_.size() || (y != rows_[next].lower && y != rows_[next].upper)) return;
  std::swap(before_, newest_);
  resize_row(row, newest_);
  while (static_cast<size_t>(next_row_) < rows_.size() &&
         rows_[static_cast<size_t>(next_row_)].upper == y) {
    write_row(rows_[static_cast<size_t>(next_row_)]);
    ++next_row_;
  }
}

Bytes BilinearResize::resident_bytes() const {
  return Bytes(static_cast<int64_t>((rows_.size() + columns_.size()) * sizeof(Tap) +
                                    (before_.size() + newest_.size()) * sizeof(float)));
}

}  // namespace plimsoll::data
