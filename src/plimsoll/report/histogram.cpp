#include "report/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/shape.h"

namespace plimsoll::report {
namespace {

constexpr int64_t kPieceElements = 16384;

// Calls body(value) for each finite number, in order.
template <typename Body>
void for_each_number(TensorSource& tensors, size_t index, const Body& body) {
  const TensorInfo& info = tensors.tensors()[index];
  PLIMSOLL_CHECK(info.dtype == DType::kFloat32, "a histogram of " + info.name);
  const int64_t count = fixed_shape(info.shape).element_count(1);
  std::vector<float> piece(static_cast<size_t>(std::min(count, kPieceElements)));
  for (int64_t done = 0; done < count;) {
    const auto now = static_cast<size_t>(std::min(count - done, kPieceElements));
    const std::span<float> part = std::span(piece).first(now);
    tensors.read(index, done * static_cast<int64_t>(sizeof(float)), std::as_writable_bytes(part));
    for (const float value : part) {
      if (std::isfinite(value)) body(static_cast<double>(value));
    }
    done += static_cast<int64_t>(now);
  }
}

}  // namespace

Histogram make_histogram(TensorSource& tensors, size_t index) {
  Histogram histogram;
  histogram.least = std::numeric_limits<double>::infinity();
  histogram.largest = -histogram.least;
  for_each_number(tensors, index, [&](double value) {
    histogram.least = std::min(histogram.least, value);
    histogram.largest = std::max(histogram.largest, value);
  });
  if (histogram.least > histogram.largest) return {};
  const double width = (histogram.largest - histogram.least) / Histogram::kBuckets;
  for_each_number(tensors, index, [&](double value) {
    constexpr int kLast = Histogram::kBuckets - 1;
    const double at = width > 0 ? std::floor((value - histogram.least) / width) : kLast;
    ++histogram.counts[static_cast<size_t>(std::min(at, double{kLast}))];
  });
  return histogram;
}

}  // namespace plimsoll::report
