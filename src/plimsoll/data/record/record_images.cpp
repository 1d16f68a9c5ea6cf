#include "data/record/record_images.h"

#include <array>
#include <span>
#include <utility>

#include "base/format.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kPendingBytes = 256 << 10;
constexpr int64_t kPieceBytes = 64 << 10;  // that the reader hands out at most
constexpr auto kPlaceBytes = static_cast<int64_t>(sizeof(int64_t));

}  // namespace

RecordImages::RecordImages(std::string path, const std::string& folder)
    : path_(std::move(path)),
      bytes_(std::make_shared<File>(File::unlinked(folder))),
      places_(File::unlinked(folder)) {
  static_assert(Bytes(2 * kPendingBytes + kPieceBytes) == kMostPending);
  pending_.reserve(kPendingBytes + kPieceBytes);
  ends_.reserve(kPendingBytes / kPlaceBytes);
}

void RecordImages::add(codec::TfRecordReader& reader, const codec::ExampleFeature& feature) {
  reader.read_values(feature, [&](std::span<const std::byte> piece) {
    pending_.insert(pending_.end(), piece.begin(), piece.end());
    end_ += std::ssize(piece);
    if (std::ssize(pending_) >= kPendingBytes) flush();
  });
  ends_.push_back(end_);
  ++count_;
  if (std::ssize(ends_) * kPlaceBytes >= kPendingBytes) flush();
}

void RecordImages::flush() {
  bytes_->write_at(end_ - std::ssize(pending_), pending_);
  places_.write_at((count_ - std::ssize(ends_)) * kPlaceBytes, std::as_bytes(std::span(ends_)));
  pending_.clear();
  ends_.clear();
}

void RecordImages::finish() {
  flush();
  pending_ = {};
  ends_ = {};
}

std::string RecordImages::file(int64_t index) const {
  return fmt::format("{}: record {}", path_, index);
}

std::shared_ptr<const codec::FileReader> RecordImages::open(int64_t index) const {
  std::array<int64_t, 2> ends{};  // of the one before, and of this one
  const int64_t first = index == 0 ? 0 : index - 1;
  auto part = std::span(ends).last(static_cast<size_t>(index == 0 ? 1 : 2));
  places_.read_at(first * kPlaceBytes, std::as_writable_bytes(part));
  return std::make_shared<const codec::FileReader>(bytes_, ends[0], ends[1] - ends[0], file(index));
}

}  // namespace plimsoll::data
