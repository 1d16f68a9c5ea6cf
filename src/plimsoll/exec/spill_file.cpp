#include "exec/spill_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/process_memory.h"

namespace plimsoll::exec {

PageBuffer::PageBuffer(Bytes bytes) : bytes_(bytes) {
  void* address =
      ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw_io("buffer", "take " + to_string(bytes), errno);
  data_ = static_cast<std::byte*>(address);
}

PageBuffer::~PageBuffer() { ::munmap(data_, bytes_.size()); }

SpillFile::SpillFile(const std::string& folder, Bytes bytes, size_t transfers)
    : file_(File::unlinked(folder)),
      buffer_(kSpillBuffer),
      slots_(transfers),
      queue_(std::max<size_t>(transfers, 1)) {
  const int error = ::posix_fallocate(file_.descriptor(), 0, bytes.count());
  if (error != 0) {
    throw_io(folder, "take " + to_string(bytes) + " for the spill file", error,
             "Name a folder with more space by --spill-dir, or pass --no-spill.");
  }
  direct_ = file_.past_cache();
  thread_ = std::thread([this] { serve(); });
}

SpillFile::~SpillFile() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
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
  size_t bytes = sizeof(*this) + buffer_.size() + slots_.size() * (sizeof(Slot) + sizeof(size_t));
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

void SpillFile::read(int64_t offset, std::span<std::byte> destination) {
  move(false, destination.data(), offset, destination.size());
}

void SpillFile::write(int64_t offset, std::span<const std::byte> source) {
  // Memory that is written to the file is only read.
  move(true, const_cast<std::byte*>(source.data()), offset, source.size());
}

void SpillFile::move(bool to_file, std::byte* memory, int64_t offset, size_t bytes) {
  if (direct_.is_open() && move_directly(to_file, memory, offset, bytes)) return;
  const std::span<std::byte> span(memory, bytes);
  if (to_file) {
    file_.write_at(offset, span);
    // Only pages that are clean leave the cache.
    ::sync_file_range(file_.descriptor(), offset, static_cast<off_t>(bytes),
                      SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  } else {
    file_.read_at(offset, span);
  }
  file_.drop_cache(offset, static_cast<int64_t>(bytes));
}

// Piece by piece through the buffer; false: the device wants the cache.
bool SpillFile::move_directly(bool to_file, std::byte* memory, int64_t offset, size_t bytes) {
  const int64_t page = page_size().count();
  const auto room = static_cast<int64_t>(buffer_.size());
  const int64_t end = offset + static_cast<int64_t>(bytes);
  for (int64_t at = offset; at < end;) {
    const int64_t first = at / page * page;
    const int64_t last = std::min((end + page - 1) / page * page, first + room);
    const int64_t stop = std::min(end, last);
    std::byte* part = memory + (at - offset);
    const auto count = static_cast<size_t>(stop - at);
    std::byte* inside = buffer_.data() + (at - first);
    const auto size = static_cast<size_t>(page);
    if (to_file) {
      const bool head = at > first;
      const bool tail = stop < last && !(head && last - first == page);
      std::byte* last_page = buffer_.data() + (last - page - first);
      if (head && !move_pages(false, buffer_.data(), first, size)) return false;
      if (tail && !move_pages(false, last_page, last - page, size)) return false;
      std::memcpy(inside, part, count);
    }
    if (!move_pages(to_file, buffer_.data(), first, static_cast<size_t>(last - first)))
      return false;
    if (!to_file) std::memcpy(part, inside, count);
    at = stop;
  }
  return true;
}

// False where the file system has no such way for these pages.
bool SpillFile::move_pages(bool to_file, std::byte* buffer, int64_t offset, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const auto at = static_cast<off_t>(offset + static_cast<int64_t>(done));
    const ssize_t moved = to_file ? ::pwrite(direct_.descriptor(), buffer + done, bytes - done, at)
                                  : ::pread(direct_.descriptor(), buffer + done, bytes - done, at);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno == EINVAL) return false;
    if (moved <= 0) {
      throw_io("spill file", to_file ? "write to it" : "read from it", moved < 0 ? errno : EIO,
               "Look at the disk that holds it, or name another folder with --spill-dir.");
    }
    // What the device ends within a page goes on through the cache.
    if (moved % page_size().count() != 0) return false;
    done += static_cast<size_t>(moved);
  }
  return true;
}

}  // namespace plimsoll::exec
