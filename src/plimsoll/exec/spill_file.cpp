#include "exec/spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/process_memory.h"

namespace plimsoll::exec {

SpillFile::SpillFile(const std::string& folder, Bytes bytes, size_t transfers)
    : file_(File::unlinked(folder)), slots_(transfers), queue_(transfers) {
  const int error = ::posix_fallocate(file_.descriptor(), 0, bytes.count());
  if (error != 0) {
    throw_io(folder, "take " + to_string(bytes) + " for the spill file", error,
             "Name a folder with more space by --spill-dir, or pass --no-spill.");
  }
  // A second way to the same file; not every file system has it.
  const std::string path = "/proc/self/fd/" + std::to_string(file_.descriptor());
  direct_ = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  thread_ = std::thread([this] { serve(); });
}

SpillFile::~SpillFile() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (direct_ >= 0) ::close(direct_);
}

void SpillFile::set_layout(size_t transfer, SpillRegion region) {
  slots_[transfer].at.resize(region.rows.size());
  slots_[transfer].region = std::move(region);
}

void SpillFile::begin(size_t transfer) {
  {
    const std::lock_guard lock(mutex_);
    slots_[transfer].phase = Phase::kQueued;
    queue_[(head_ + queued_) % queue_.size()] = transfer;
    ++queued_;
  }
  changed_.notify_all();
}

void SpillFile::wait(size_t transfer) {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[transfer];
  changed_.wait(lock, [&] { return slot.phase == Phase::kDone; });
  slot.phase = Phase::kIdle;
  if (slot.error) std::rethrow_exception(std::exchange(slot.error, nullptr));
}

void SpillFile::abandon() noexcept {
  std::unique_lock lock(mutex_);
  for (Slot& slot : slots_) {
    changed_.wait(lock, [&] { return slot.phase != Phase::kQueued; });
    slot.phase = Phase::kIdle;
    slot.error = nullptr;
  }
}

Bytes SpillFile::overhead() const {
  size_t bytes = sizeof(*this) + slots_.size() * (sizeof(Slot) + sizeof(size_t));
  for (const Slot& slot : slots_) bytes += 4 * slot.region.rows.size() * sizeof(int64_t);
  return Bytes(static_cast<int64_t>(bytes));
}

void SpillFile::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || queued_ > 0; });
    if (queued_ == 0) return;
    Slot& slot = slots_[queue_[head_]];
    lock.unlock();
    try {
      copy(slot);
    } catch (...) {
      slot.error = std::current_exception();
    }
    lock.lock();
    head_ = (head_ + 1) % queue_.size();
    --queued_;
    slot.phase = Phase::kDone;
    changed_.notify_all();
  }
}

// Piece by piece of what is contiguous at both ends.
void SpillFile::copy(Slot& slot) {
  const SpillRegion& region = slot.region;
  size_t outer = region.rows.size();
  int64_t run = region.unit;
  while (outer > 0 && region.memory_strides[outer - 1] == run &&
         region.file_strides[outer - 1] == run) {
    run *= region.rows[--outer];
  }
  slot.at.assign(region.rows.size(), 0);
  while (true) {
    int64_t in_memory = 0;
    int64_t in_file = region.offset;
    for (size_t d = 0; d < outer; ++d) {
      in_memory += slot.at[d] * region.memory_strides[d];
      in_file += slot.at[d] * region.file_strides[d];
    }
    move(region.to_file, region.memory + in_memory, in_file, static_cast<size_t>(run));
    size_t d = outer;
    while (d > 0 && ++slot.at[d - 1] == region.rows[d - 1]) slot.at[--d] = 0;
    if (d == 0) break;
  }
}

void SpillFile::move(bool to_file, std::byte* memory, int64_t offset, size_t bytes) {
  const auto page = static_cast<uint64_t>(page_size().count());
  const bool aligned = (reinterpret_cast<uintptr_t>(memory) | static_cast<uint64_t>(offset) |
                        static_cast<uint64_t>(bytes)) %
                           page ==
                       0;
  size_t done = 0;
  while (aligned && direct_ >= 0 && done < bytes) {
    const auto at = static_cast<off_t>(offset + static_cast<int64_t>(done));
    const ssize_t moved = to_file ? ::pwrite(direct_, memory + done, bytes - done, at)
                                  : ::pread(direct_, memory + done, bytes - done, at);
    if (moved < 0 && errno == EINTR) continue;
    // What the device cannot do directly, a short read at its end included, goes through the cache.
    if (moved <= 0 || static_cast<uint64_t>(moved) % page != 0) break;
    done += static_cast<size_t>(moved);
  }
  if (done == bytes) return;
  const int64_t rest = offset + static_cast<int64_t>(done);
  const std::span<std::byte> span(memory + done, bytes - done);
  if (to_file) {
    file_.write_at(rest, span);
    // Only pages that are clean leave the cache.
    ::sync_file_range(file_.descriptor(), rest, static_cast<off_t>(span.size()),
                      SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  } else {
    file_.read_at(rest, span);
  }
  file_.drop_cache(rest, static_cast<int64_t>(span.size()));
}

}  // namespace plimsoll::exec
