#include "exec/spill_queue.h"
#include "base/ceil_div.h"

#include <algorithm>
#include <cstring>

namespace plimsoll::exec {
namespace {

// Transfers that are announced beside those that have begun.
constexpr size_t kAhead = 64;
constexpr size_t kPieces = 256;
constexpr int64_t kLargestPiece = int64_t{1} << 20;

}  // namespace

PieceRing::PieceRing(Bytes bytes, int64_t page)
    : pages_(round_up(bytes, Bytes(2 * page))), page_(page), slots_(kPieces) {
  most_ = std::min(this->bytes() / 2, std::max(kLargestPiece, page)) / page * page;
  std::memset(pages_.data(), 0, pages_.size());
}

PieceRing::Slot* PieceRing::add(const SpillPiece& piece, size_t transfer) {
  const int64_t before = piece.offset % page_;
  const int64_t whole = round_up(before + piece.bytes, page_);
  int64_t begin = head_;
  if (begin % bytes() + whole > bytes()) begin += bytes() - begin % bytes();
  if (begin + whole - tail_ > bytes() || next_ - first_ == std::ssize(slots_)) return nullptr;
  head_ = begin + whole;
  Slot& slot = at(next_++);
  slot = {piece, transfer, pages_.data() + begin % bytes(), head_, State::kBusy};
  return &slot;
}

void PieceRing::release() {
  for (; first_ < next_ && at(first_).state == State::kDone; ++first_) tail_ = at(first_).end;
  if (first_ == next_) head_ = tail_ = 0;
}

void PieceRing::clear() {
  first_ = next_ = 0;
  head_ = tail_ = 0;
}

SpillQueue::SpillQueue(const std::string& folder, const Shape& shape)
    : file_(folder, shape.bytes),
      reads_(Bytes(shape.buffer.count() / 2), file_.page()),
      writes_(Bytes(shape.buffer.count() / 2), file_.page()),
      transfers_(shape.open + kAhead) {
  live_.reserve(transfers_.size());
  free_.reserve(transfers_.size());
  for (size_t t = transfers_.size(); t-- > 0;) {
    free_.push_back(t);
    SpillRegion& region = transfers_[t].region;
    region.rows.reserve(shape.rank);
    region.memory_strides.reserve(shape.rank);
    region.file_strides.reserve(shape.rank);
    transfers_[t].walk.reserve(shape.rank);
  }
  threads_.start([this] { serve_reads(); });
  threads_.start([this] { serve_writes(); });
}

SpillQueue::~SpillQueue() {
  if (is_child_without_threads()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  threads_.join();
}

bool SpillQueue::has_room() {
  const std::lock_guard lock(mutex_);
  return !free_.empty();
}

SpillRegion& SpillQueue::next_region() {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || !free_.empty(); });
  if (error_) std::rethrow_exception(error_);
  // Taken now: others become free while it is filled in.
  filled_ = free_.back();
  free_.pop_back();
  return transfers_[filled_].region;
}

size_t SpillQueue::announce() {
  const std::lock_guard lock(mutex_);
  const size_t number = filled_;
  live_.push_back(number);
  Transfer& transfer = transfers_[number];
  const SpillRegion& region = transfer.region;
  transfer.walk.start(region, file_.page(), (region.to_file ? writes_ : reads_).most());
  transfer.file_end = region.file_end();
  transfer.open = transfer.filling = 0;
  transfer.reading = transfer.begun = transfer.awaited = transfer.over = false;
  if (!region.to_file) changed_.notify_all();
  return number;
}

void SpillQueue::begin(size_t transfer) {
  const std::lock_guard lock(mutex_);
  transfers_[transfer].begun = true;
  changed_.notify_all();
}

// A load has all in memory, a store nothing left there.
bool SpillQueue::is_through(const Transfer& transfer) {
  return transfer.walk.ended() && (transfer.region.to_file ? transfer.filling : transfer.open) == 0;
}

void SpillQueue::wait(size_t number) {
  Lock lock(mutex_);
  Transfer& transfer = transfers_[number];
  transfer.awaited = true;
  while (!error_ && !is_through(transfer)) {
    if (transfer.region.to_file ? fill_one(lock) : empty_one(lock, &transfer)) continue;
    if (!error_ && !is_through(transfer)) changed_.wait(lock);
  }
  transfer.awaited = false;
  transfer.over = true;
  retire();
  if (error_) std::rethrow_exception(error_);
}

void SpillQueue::finish() {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || live_.empty(); });
  if (error_) std::rethrow_exception(error_);
}

void SpillQueue::abandon() noexcept {
  if (is_child_without_threads()) return;
  Lock lock(mutex_);
  free_.insert(free_.end(), live_.begin(), live_.end());
  live_.clear();  // nothing is left to take up
  reads_.clear();
  writes_.clear();
  changed_.wait(lock, [&] { return busy_ == 0; });
  error_ = nullptr;
}

void SpillQueue::retire() {
  std::erase_if(live_, [&](size_t number) {
    const Transfer& transfer = transfers_[number];
    const bool done = transfer.over && transfer.walk.ended() && transfer.open == 0;
    if (done) free_.push_back(number);
    return done;
  });
}

// Whether a store in front has to write first what the load reads.
bool SpillQueue::is_blocked(size_t position) const {
  const Transfer& load = transfers_[live_[position]];
  for (size_t p = 0; p < position; ++p) {
    const Transfer& store = transfers_[live_[p]];
    if (!store.region.to_file || (store.walk.ended() && store.open == 0)) continue;
    if (store.region.offset < load.file_end && load.region.offset < store.file_end) return true;
  }
  return false;
}

// Works without the lock, and keeps what goes wrong; false: something did.
template <typename Work>
bool SpillQueue::work(Lock& lock, const Work& work) {
  std::exception_ptr error;
  ++busy_;
  lock.unlock();
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  --busy_;
  if (error && !error_) error_ = error;
  changed_.notify_all();
  return !error;
}

bool SpillQueue::read_one(Lock& lock) {
  const auto next = std::ranges::find_if(live_, [&](size_t number) {
    return !transfers_[number].region.to_file && !transfers_[number].walk.ended();
  });
  if (next == live_.end()) return false;
  Transfer& load = transfers_[*next];
  if (!load.reading && is_blocked(static_cast<size_t>(next - live_.begin()))) return false;
  const SpillPiece piece = load.walk.piece(load.region);
  PieceRing::Slot* slot = reads_.add(piece, *next);
  if (slot == nullptr) return false;
  load.reading = true;
  load.walk.advance(load.region);
  ++load.open;
  moved_.read += piece.bytes;
  if (work(lock, [&] { file_.read_pages(slot->pages, piece.offset, piece.bytes); })) {
    slot->state = PieceRing::State::kReady;
  }
  return true;
}

// Copies what was read into the memory of a transfer that has begun: of `only`, or of any that
// nobody waits for.
bool SpillQueue::empty_one(Lock& lock, const Transfer* only) {
  for (int64_t s = reads_.first(); s < reads_.next(); ++s) {
    PieceRing::Slot& slot = reads_.at(s);
    if (slot.state != PieceRing::State::kReady) continue;
    Transfer& load = transfers_[slot.transfer];
    if (only == nullptr ? !load.begun || load.awaited : &load != only) continue;
    slot.state = PieceRing::State::kBusy;
    work(lock, [&] {
      std::memcpy(slot.piece.memory, slot.pages + slot.piece.offset % file_.page(),
                  static_cast<size_t>(slot.piece.bytes));
    });
    slot.state = PieceRing::State::kDone;
    --load.open;
    reads_.release();
    retire();
    return true;
  }
  return false;
}

// In the order of the transfers, so that what is written twice ends as the later one has it.
bool SpillQueue::fill_one(Lock& lock) {
  const auto next = std::ranges::find_if(live_, [&](size_t number) {
    return transfers_[number].region.to_file && !transfers_[number].walk.ended();
  });
  if (next == live_.end() || !transfers_[*next].begun) return false;
  Transfer& store = transfers_[*next];
  const SpillPiece piece = store.walk.piece(store.region);
  PieceRing::Slot* slot = writes_.add(piece, *next);
  if (slot == nullptr) return false;
  store.walk.advance(store.region);
  ++store.open;
  ++store.filling;
  work(lock, [&] {
    std::memcpy(slot->pages + piece.offset % file_.page(), piece.memory,
                static_cast<size_t>(piece.bytes));
  });
  slot->state = PieceRing::State::kReady;
  --store.filling;
  return true;
}

bool SpillQueue::write_one(Lock& lock) {
  if (writes_.first() == writes_.next()) return false;
  PieceRing::Slot& slot = writes_.at(writes_.first());
  if (slot.state != PieceRing::State::kReady) return false;
  slot.state = PieceRing::State::kBusy;
  moved_.written += slot.piece.bytes;
  if (!work(lock, [&] { file_.write_pages(slot.pages, slot.piece.offset, slot.piece.bytes); })) {
    return true;
  }
  slot.state = PieceRing::State::kDone;
  --transfers_[slot.transfer].open;
  writes_.release();
  retire();
  return true;
}

void SpillQueue::serve_reads() {
  Lock lock(mutex_);
  while (!stop_) {
    if (!error_ && (read_one(lock) || empty_one(lock, nullptr))) continue;
    changed_.wait(lock);
  }
}

void SpillQueue::serve_writes() {
  Lock lock(mutex_);
  while (!stop_) {
    if (!error_ && (write_one(lock) || fill_one(lock))) continue;
    changed_.wait(lock);
  }
}

void SpillQueue::read(int64_t offset, std::span<std::byte> destination) {
  const int64_t size = std::ssize(destination);
  SpillRegion region{false, destination.data(), offset, size, {}, {}, {}};
  RegionWalk walk;
  for (walk.start(region, file_.page(), reads_.most()); !walk.ended(); walk.advance(region)) {
    const SpillPiece piece = walk.piece(region);
    file_.read_pages(reads_.data(), piece.offset, piece.bytes);
    std::memcpy(piece.memory, reads_.data() + piece.offset % file_.page(),
                static_cast<size_t>(piece.bytes));
  }
}

void SpillQueue::write(int64_t offset, std::span<const std::byte> source) {
  const int64_t size = std::ssize(source);
  // Memory that is written to the file is only read.
  SpillRegion region{true, const_cast<std::byte*>(source.data()), offset, size, {}, {}, {}};
  RegionWalk walk;
  for (walk.start(region, file_.page(), writes_.most()); !walk.ended(); walk.advance(region)) {
    const SpillPiece piece = walk.piece(region);
    std::memcpy(writes_.data() + piece.offset % file_.page(), piece.memory,
                static_cast<size_t>(piece.bytes));
    file_.write_pages(writes_.data(), piece.offset, piece.bytes);
  }
}

SpillQueue::Moved SpillQueue::bytes_moved() {
  const std::lock_guard lock(mutex_);
  return moved_;
}

Bytes SpillQueue::overhead() const {
  return Bytes(static_cast<int64_t>(sizeof(*this) + reads_.overhead() + writes_.overhead() +
                                    transfers_.size() * sizeof(Transfer)));
}

}  // namespace plimsoll::exec
