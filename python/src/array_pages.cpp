#include "array_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

namespace plimsoll::python {
namespace {

constexpr size_t kPiece = 4 << 20;  // that is there twice at a time

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

bool write_whole(int file, const char* from, size_t size, int64_t offset) {
  while (size > 0) {
    const ssize_t done = ::pwrite(file, from, size, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    from += done;
    offset += done;
    size -= static_cast<size_t>(done);
  }
  return true;
}

// Writes what is there to a byte of each page: the kernel makes each the process's own, and what
// another thread writes at the same time stays.
void own(char* begin, char* end) {
  for (char* at = begin; at < end; at += page_bytes()) {
    const std::atomic_ref<char> byte(*at);
    char held = byte.load(std::memory_order_relaxed);
    byte.compare_exchange_strong(held, held, std::memory_order_relaxed);
  }
}

// The pages that the process has of a file become its own, and the file's go.
void take_back(char* begin, char* end, int file, int64_t offset) {
  for (char* at = begin; at < end; at += kPiece) {
    char* const piece_end = at + std::min(kPiece, static_cast<size_t>(end - at));
    own(at, piece_end);
    ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset + (at - begin),
                piece_end - at);
  }
}

}  // namespace

MemoryFile::~MemoryFile() { ::close(file_); }

SharedPages::Share SharedPages::share(const void* block, void* begin, size_t size) {
  const size_t page = page_bytes();
  const size_t head = reinterpret_cast<uintptr_t>(begin) % page;
  char* const first = static_cast<char*>(begin) - head;  // its page's begin is that of the file
  const size_t end = head + size;
  const int number = ::memfd_create("plimsoll-array", MFD_CLOEXEC);
  if (number < 0) return {};
  auto file = std::make_shared<MemoryFile>(number);
  const std::lock_guard lock(mutex_);
  bool good = ::ftruncate(number, static_cast<off_t>((end + page - 1) / page * page)) == 0;
  const size_t inner = std::min((head + page - 1) / page * page, end);
  const size_t inner_end = std::max(end / page * page, inner);
  good = good && write_whole(number, first + head, inner - head, static_cast<int64_t>(head));
  size_t at = inner;
  for (; good && at < inner_end; at += kPiece) {
    const size_t length = std::min(kPiece, inner_end - at);
    good = write_whole(number, first + at, length, static_cast<int64_t>(at));
    if (!good) break;
    // Where it cannot be mapped the array keeps these pages, and the file has a copy.
    static_cast<void>(::mmap(first + at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
                             number, static_cast<off_t>(at)));
  }
  at = std::min(at, inner_end);
  good = good &&
         write_whole(number, first + inner_end, end - inner_end, static_cast<int64_t>(inner_end));
  take_off(first + inner, first + at);
  if (!good) {
    const int error = errno;
    take_back(first + inner, first + at, number, static_cast<int64_t>(inner));
    errno = error;
    return {};
  }
  ++names_;
  ranges_.push_back(
      {names_, block, first + inner, first + inner_end, static_cast<int64_t>(inner), file});
  return {names_, std::move(file)};
}

// Other files have these pages no more.
void SharedPages::take_off(char* begin, char* end) {
  std::vector<Range> left;
  for (const Range& range : ranges_) {
    Range before = range;
    before.end = std::clamp(begin, range.begin, range.end);
    Range after = range;
    after.begin = std::clamp(end, range.begin, range.end);
    after.offset += after.begin - range.begin;
    if (before.begin < before.end) left.push_back(std::move(before));
    if (after.begin < after.end) left.push_back(std::move(after));
  }
  ranges_ = std::move(left);
}

void SharedPages::give_back(uint64_t name) {
  const std::lock_guard lock(mutex_);
  for (const Range& range : ranges_) {
    if (range.name == name) take_back(range.begin, range.end, range.file->number(), range.offset);
  }
  std::erase_if(ranges_, [&](const Range& range) { return range.name == name; });
}

void SharedPages::forget(const void* block) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranges_, [&](const Range& range) { return range.block == block; });
}

void SharedPages::before_fork() {
  mutex_.lock();
  ranges_.clear();
}

}  // namespace plimsoll::python
