// The pages of arrays, shared with what refers to them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace plimsoll::python {

// A file in memory; closed with the last who holds it.
class MemoryFile {
 public:
  explicit MemoryFile(int file) : file_(file) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();
  int number() const { return file_; }

 private:
  int file_;
};

// Which arrays share pages with what refers to them. Functions may be called by several threads.
class SharedPages {
 public:
  struct Share {
    uint64_t name = 0;  // 0: there is none, with errno
    std::shared_ptr<MemoryFile> file;
  };

  // A file with the `size` bytes at `begin`, at the offset that `begin` has in its page. Whole
  // pages are the file's from now on, seen at the same place: one that is written to is the
  // writer's own copy, and the file keeps what it holds. They lie in the allocation `block`, which
  // must be the process's own (not mapped from elsewhere); nobody else may write to it meanwhile.
  Share share(const void* block, void* begin, size_t size);

  // Nobody refers to the file of `name` any more: the array's pages become its own, a piece at a
  // time, and the file's go. The array keeps what it holds, also while others write to it. Of a
  // file from before a fork nothing goes.
  void give_back(uint64_t name);

  // Before an allocation is freed, or moves.
  void forget(const void* block);

  // Around a fork of the process: nobody knows any more who has pages of a file.
  void before_fork();
  void after_fork() { mutex_.unlock(); }

 private:
  struct Range {  // of whole pages
    uint64_t name = 0;
    const void* block = nullptr;
    char* begin = nullptr;
    char* end = nullptr;
    int64_t offset = 0;  // of `begin` in the file
    std::shared_ptr<MemoryFile> file;
  };
  void take_off(char* begin, char* end);

  std::mutex mutex_;
  std::vector<Range> ranges_;
  uint64_t names_ = 0;
};

}  // namespace plimsoll::python
