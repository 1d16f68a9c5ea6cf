#include "data/rows/read_ahead.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/accounted.h"
#include "base/ceil_div.h"
#include "base/error.h"

namespace plimsoll::data {
namespace {

constexpr int64_t kSector = 4096;  // what direct reads are aligned to
// Reads of this size keep a fast disk busy and wake their threads seldom.
constexpr int64_t kUsualPiece = 512 << 10;
constexpr int64_t kLeastPiece = 128 << 10;
constexpr int64_t kLeastSlots = 6;  // of usual pieces: fewer are made smaller
constexpr int kThreads = 2;         // one read is under way while another one's end is seen to
constexpr size_t kMostRequests = 256;
constexpr size_t kHugePage = 2 << 20;
constexpr int64_t kOldAfter = 2 * kMostRequests;

// Buffers that fill a huge page begin with one.
std::byte* allocate(size_t bytes) {
  void* buffers = nullptr;
  const size_t alignment = bytes < kHugePage ? size_t{kSector} : kHugePage;
  if (::posix_memalign(&buffers, alignment, bytes) != 0) throw std::bad_alloc();
  // A direct read finds and holds each of its pages: few large ones, and none beyond the buffers.
  if (bytes >= kHugePage) ::madvise(buffers, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return static_cast<std::byte*>(buffers);
}

int64_t down(int64_t offset) { return offset / kSector * kSector; }
int64_t up(int64_t offset) { return down(offset + kSector - 1); }

}  // namespace

bool ReadAhead::works_with(const File& file) {
  const File direct = file.past_cache();
  alignas(kSector) std::byte sector[kSector];
  return direct.is_open() && ::pread(direct.descriptor(), sector, sizeof sector, 0) >= 0;
}

// A piece begins and ends inside of a sector.
int64_t ReadAhead::Shape::slot_bytes() const { return up(piece_bytes) + kSector; }

ReadAhead::Shape ReadAhead::shape_for(int64_t ranges, int64_t range_bytes, Bytes most) {
  constexpr int64_t kTurns = 2;
  Shape shape;
  for (int64_t piece = kUsualPiece; piece >= kLeastPiece; piece /= 2) {
    const int64_t pieces = std::max<int64_t>((range_bytes + piece / 2) / piece, 1);
    shape = {kTurns * ranges * pieces, ceil_div(range_bytes, pieces)};
    const int64_t slots = most.count() / shape.slot_bytes();
    if (slots >= std::min(shape.slots, kLeastSlots)) break;
  }
  shape.slots = std::min(shape.slots, most.count() / shape.slot_bytes());
  return shape;
}

ReadAhead::ReadAhead(const File& file, const Shape& shape)
    : shape_(shape), direct_(file.past_cache()), buffers_(allocate(shape.bytes().size())) {
  requests_.reserve(kMostRequests);
  for (int slot = 0; slot < shape.slots; ++slot) free_.push_back(slot);
  for (int i = 0; i < kThreads && direct_.is_open(); ++i)
    threads_.start([this] {
      const MemoryTag tag(MemoryPart::kAhead);
      work();
    });
}

ReadAhead::~ReadAhead() {
  if (is_child_without_threads()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  threads_.join();
}

void ReadAhead::ask(int64_t begin, int64_t end) {
  if (threads_.empty()) return;
  refuse_in_child("read");
  {
    const std::lock_guard lock(mutex_);
    // Pieces of one size, so that none is a rest of a few bytes.
    const int64_t pieces = (end - begin + shape_.piece_bytes - 1) / shape_.piece_bytes;
    for (int64_t i = 0; i < pieces; ++i) {
      add(begin + (end - begin) * i / pieces, begin + (end - begin) * (i + 1) / pieces);
    }
  }
  changed_.notify_all();
}

// What is asked twice stays as it was asked first.
void ReadAhead::add(int64_t begin, int64_t end) {
  if (containing(begin) != nullptr) return;
  forget_old();
  if (requests_.size() == kMostRequests) return;
  requests_.push_back({numbers_++, begin, end, end - begin});
}

// What so many later ones have passed was not taken in its turn, and will not be.
void ReadAhead::forget_old() {
  for (size_t i = 0; i < requests_.size();) {
    const Request& request = requests_[i];
    if (request.number + kOldAfter > numbers_) return;
    const bool idle = request.leases == 0 && request.state != State::kReading;
    if (idle) {
      erase(request);
    } else {
      ++i;
    }
  }
}

ReadAhead::Request* ReadAhead::find(int64_t number) {
  const auto found = std::ranges::find(requests_, number, &Request::number);
  return found == requests_.end() ? nullptr : &*found;
}

ReadAhead::Request* ReadAhead::containing(int64_t offset) {
  const auto found = std::ranges::find_if(requests_, [&](const Request& request) {
    return request.begin <= offset && offset < request.end;
  });
  return found == requests_.end() ? nullptr : &*found;
}

void ReadAhead::erase(const Request& request) {
  if (request.slot >= 0) free_.push_back(request.slot);
  requests_.erase(requests_.begin() + (&request - requests_.data()));
}

ReadAhead::Lease ReadAhead::take(int64_t begin, int64_t end) {
  refuse_in_child("read");
  std::unique_lock lock(mutex_);
  while (Request* request = containing(begin)) {
    if (request->state == State::kReady) {
      ++request->leases;
      const int64_t count = std::min(end, request->end) - begin;
      const std::byte* from = buffer(request->slot) + (begin - down(request->begin));
      return Lease(*this, request->number, {from, static_cast<size_t>(count)});
    }
    const bool comes =
        request->state == State::kReading || (request->state == State::kAsked && !free_.empty());
    if (!comes) {
      erase(*request);
      changed_.notify_all();
      break;
    }
    changed_.wait(lock);
  }
  return {};
}

void ReadAhead::give_back(int64_t number, int64_t bytes) {
  if (is_child_without_threads()) return;
  {
    const std::lock_guard lock(mutex_);
    Request* request = find(number);
    PLIMSOLL_CHECK(request != nullptr && request->leases > 0, "a lease of nothing");
    --request->leases;
    request->left -= bytes;
    if (request->left > 0 || request->leases > 0) return;
    erase(*request);
  }
  changed_.notify_all();
}

void ReadAhead::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto next = std::ranges::find(requests_, State::kAsked, &Request::state);
    if (next == requests_.end() || free_.empty()) {
      changed_.wait(lock);
      continue;
    }
    // In turn, so that the memory that was planned is the memory that is taken.
    next->slot = free_.front();
    next->state = State::kReading;
    free_.erase(free_.begin());
    const Request mine = *next;
    lock.unlock();
    const bool whole = fill(mine.slot, mine.begin, mine.end);
    lock.lock();
    find(mine.number)->state = whole ? State::kReady : State::kFailed;
    changed_.notify_all();
  }
}

// False where the file ends before, or cannot be read.
bool ReadAhead::fill(int slot, int64_t begin, int64_t end) const {
  std::byte* to = buffer(slot);
  int64_t at = down(begin);
  while (at < end) {
    const ssize_t count = ::pread(direct_.descriptor(), to + (at - down(begin)),
                                  static_cast<size_t>(up(end) - at), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    // After a read that stopped inside of a sector there is the end of the file alone.
    if (count <= 0 || (at + count < end && count % kSector != 0)) return false;
    at += count;
  }
  return true;
}

}  // namespace plimsoll::data
