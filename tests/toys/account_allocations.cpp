// A library to be preloaded into the program: tells which part of the predicted memory each large
// allocation belonged to (base/accounted.h), vendors' included.
//
//   LD_PRELOAD=…/account_allocations.so PLIMSOLL_ACCOUNT=report.json plimsoll fit …
//
// Live bytes and their peak are kept for each part over calls of 64 KiB or more: of malloc and its
// kin whole, of mmap the pages in memory (looked at before some go). What smaller calls hold is one
// sum. A large call
// without a part is an orphan: it is kept with the code addresses that led to it, the first few of
// them; orphans before main() are counted only. The report is one JSON object, written at exit by
// processes that have the program's tags. PLIMSOLL_ACCOUNT_HOLD=N takes N MiB that belong to no
// part, touched, when main() begins, so that a process passes its limit.
//
// What it keeps is static, and allocates nothing. Mappings of shared libraries and thread stacks,
// which the C library makes by itself, are not seen.

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
}

namespace {

constexpr size_t kLarge = 64 << 10;
constexpr int kParts = 16;
constexpr size_t kMostBlocks = 1 << 14;  // large ones that live at once
constexpr size_t kMostOrphans = 32;
constexpr int kFrames = 24;

struct Block {
  uintptr_t address = 0;
  size_t bytes = 0;
  int part = 0;
  bool mapping = false;
};

struct Orphan {
  size_t bytes = 0;
  int frame_count = 0;
  std::array<void*, kFrames> frames{};
};

struct Book {
  std::array<Block, kMostBlocks> blocks;  // the first `used` of them; where address is 0: free
  size_t used = 0;
  std::array<int64_t, kParts> live{};  // of malloc and its kin
  std::array<int64_t, kParts> peak{};
  std::array<int64_t, kParts> mapped_peak{};  // pages in memory
  std::array<bool, kParts> mapped_more{};     // since that was looked at
  std::array<int64_t, kParts> calls{};
  int64_t before_main = 0;
  int64_t orphan_count = 0;
  size_t orphans_kept = 0;
  std::array<Orphan, kMostOrphans> orphans;
  bool overflow = false;
};

Book book;
std::atomic_flag busy = ATOMIC_FLAG_INIT;
std::atomic<int64_t> small_live{0};
std::atomic<int64_t> small_peak{0};
std::atomic<bool> main_began{false};
int (*current_part)() = nullptr;
thread_local bool inside = false;  // of this library's own work

class Lock {
 public:
  Lock() {
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Lock() { busy.clear(std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

int part_now() { return current_part == nullptr ? 0 : current_part(); }

void count_small(int64_t bytes) {
  const int64_t live = small_live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = small_peak.load(std::memory_order_relaxed);
  while (live > peak && !small_peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

void note_orphan(size_t bytes) {
  if (!main_began.load(std::memory_order_relaxed)) {
    ++book.before_main;
    return;
  }
  ++book.orphan_count;
  if (book.orphans_kept == kMostOrphans) return;
  Orphan& orphan = book.orphans[book.orphans_kept++];
  orphan.bytes = bytes;
  orphan.frame_count = ::backtrace(orphan.frames.data(), kFrames);
}

void add_block(void* address, size_t bytes, bool mapping, int part) {
  const Lock lock;
  inside = true;
  size_t at = 0;
  while (at < book.used && book.blocks[at].address != 0) ++at;
  if (at == kMostBlocks) {
    book.overflow = true;
  } else {
    if (at == book.used) ++book.used;
    book.blocks[at] = {reinterpret_cast<uintptr_t>(address), bytes, part, mapping};
    const auto p = static_cast<size_t>(part);
    ++book.calls[p];
    if (mapping) {
      book.mapped_more[p] = true;
    } else {
      book.live[p] += static_cast<int64_t>(bytes);
      if (book.live[p] > book.peak[p]) book.peak[p] = book.live[p];
    }
  }
  if (part == 0) note_orphan(bytes);
  inside = false;
}

// The part that it belonged to; −1: it is not known.
int remove_block(void* address) {
  const Lock lock;
  for (size_t i = 0; i < book.used; ++i) {
    Block& block = book.blocks[i];
    if (block.mapping || block.address != reinterpret_cast<uintptr_t>(address)) continue;
    book.live[static_cast<size_t>(block.part)] -= static_cast<int64_t>(block.bytes);
    block.address = 0;
    return block.part;
  }
  return -1;
}

int64_t resident_bytes(const Block& block) {
  constexpr size_t kPage = 4096;
  static std::array<unsigned char, 1 << 14> pages;
  const uintptr_t end = block.address + block.bytes;
  int64_t resident = 0;
  for (uintptr_t at = block.address / kPage * kPage; at < end; at += pages.size() * kPage) {
    const size_t bytes = end - at < pages.size() * kPage ? end - at : pages.size() * kPage;
    if (::mincore(reinterpret_cast<void*>(at), bytes, pages.data()) != 0) continue;
    for (size_t i = 0; i < (bytes + kPage - 1) / kPage; ++i) resident += (pages[i] & 1) * kPage;
  }
  return resident;
}

// Looks at the mappings of a part, where there came some since the last time.
void look_at_mappings(size_t part) {
  if (!book.mapped_more[part]) return;
  book.mapped_more[part] = false;
  int64_t resident = 0;
  for (size_t i = 0; i < book.used; ++i) {
    const Block& block = book.blocks[i];
    if (block.mapping && block.address != 0 && block.part == static_cast<int>(part)) {
      resident += resident_bytes(block);
    }
  }
  if (resident > book.mapped_peak[part]) book.mapped_peak[part] = resident;
}

// Takes [address, address + bytes) out of the mappings that hold it.
void unmap_blocks(void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + bytes;
  const Lock lock;
  for (size_t i = 0; i < book.used; ++i) {
    Block& block = book.blocks[i];
    const uintptr_t last = block.address + block.bytes;
    if (!block.mapping || block.address == 0 || begin >= last || end <= block.address) continue;
    look_at_mappings(static_cast<size_t>(block.part));
    const size_t gone = (end < last ? end : last) - (begin > block.address ? begin : block.address);
    block.bytes -= gone;
    if (begin <= block.address) block.address = end;
    if (block.bytes == 0) block.address = 0;
  }
}

void* note_new(void* memory) {
  if (memory == nullptr || inside) return memory;
  const size_t bytes = ::malloc_usable_size(memory);
  if (bytes < kLarge) {
    count_small(static_cast<int64_t>(bytes));
  } else {
    add_block(memory, bytes, false, part_now());
  }
  return memory;
}

void note_old(void* memory) {
  if (memory == nullptr || inside) return;
  const size_t bytes = ::malloc_usable_size(memory);
  if (bytes < kLarge) {
    count_small(-static_cast<int64_t>(bytes));
  } else {
    remove_block(memory);
  }
}

// ---- the report

constexpr std::array<const char*, 11> kNames = {"none",   "engine", "kernels", "structures",
                                                "search", "data",   "ahead",   "spill",
                                                "files",  "arena",  "unknown"};

void write_orphan(std::FILE* file, const Orphan& orphan, const char* program, bool last) {
  std::fprintf(file, "    {\"bytes\": %zu, \"frames\": [", orphan.bytes);
  for (int f = 0; f < orphan.frame_count; ++f) {
    Dl_info info = {};
    const auto at = reinterpret_cast<uintptr_t>(orphan.frames[static_cast<size_t>(f)]);
    const bool known = ::dladdr(orphan.frames[static_cast<size_t>(f)], &info) != 0;
    // The program itself is called what it was called by.
    const bool own = known && std::strcmp(info.dli_fname, program_invocation_name) == 0;
    const uintptr_t base = known ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
    std::fprintf(file, "%s\"%s+0x%zx\"", f == 0 ? "" : ", ",
                 own     ? program
                 : known ? info.dli_fname
                         : "?",
                 static_cast<size_t>(at - base));
  }
  std::fprintf(file, "]}%s\n", last ? "" : ",");
}

void write_report(const char* path) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return;
  std::fprintf(file, "{\n  \"parts\": {");
  for (size_t p = 0; p < kNames.size(); ++p) {
    look_at_mappings(p);
    std::fprintf(file, "%s\n    \"%s\": {\"heap\": %lld, \"mapped\": %lld, \"calls\": %lld}",
                 p == 0 ? "" : ",", kNames[p], static_cast<long long>(book.peak[p]),
                 static_cast<long long>(book.mapped_peak[p]),
                 static_cast<long long>(book.calls[p]));
  }
  std::fprintf(file, "\n  },\n  \"small_peak\": %lld,\n  \"before_main\": %lld,\n",
               static_cast<long long>(small_peak.load()), static_cast<long long>(book.before_main));
  std::fprintf(file, "  \"overflow\": %s,\n  \"orphan_count\": %lld,\n  \"orphans\": [\n",
               book.overflow ? "true" : "false", static_cast<long long>(book.orphan_count));
  std::array<char, 4096> program{};
  if (::readlink("/proc/self/exe", program.data(), program.size() - 1) < 0) program[0] = '?';
  for (size_t i = 0; i < book.orphans_kept; ++i) {
    write_orphan(file, book.orphans[i], program.data(), i + 1 == book.orphans_kept);
  }
  std::fprintf(file, "  ]\n}\n");
  std::fclose(file);
}

__attribute__((constructor)) void open_book() {
  std::array<void*, 4> frames{};
  inside = true;
  ::backtrace(frames.data(), static_cast<int>(frames.size()));  // loads what it needs once
  inside = false;
  current_part = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "plimsoll_current_memory_part"));
}

__attribute__((destructor)) void close_book() {
  inside = true;
  const char* path = std::getenv("PLIMSOLL_ACCOUNT");
  if (path != nullptr && current_part != nullptr) write_report(path);
}

// ---- main()

using Main = int (*)(int, char**, char**);
Main real_main = nullptr;

void* volatile held = nullptr;

// For good, and for nobody.
void hold(const char* mebibytes) {
  const size_t bytes = std::strtoull(mebibytes, nullptr, 10) << 20;
  held = std::malloc(bytes);
  if (held != nullptr) std::memset(held, 1, bytes);
}

int begin_main(int argc, char** argv, char** environment) {
  main_began = true;
  const char* more = std::getenv("PLIMSOLL_ACCOUNT_HOLD");
  if (more != nullptr && current_part != nullptr) hold(more);
  return real_main(argc, argv, environment);
}

}  // namespace

#define PLIMSOLL_REPLACES extern "C" __attribute__((visibility("default")))

PLIMSOLL_REPLACES int __libc_start_main(Main main, int argc, char** argv, void (*init)(),
                                        void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  real_main = main;
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto start = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(begin_main, argc, argv, init, fini, rtld_fini, stack_end);
}

PLIMSOLL_REPLACES void* malloc(size_t bytes) { return note_new(__libc_malloc(bytes)); }
PLIMSOLL_REPLACES void* calloc(size_t count, size_t bytes) {
  return note_new(__libc_calloc(count, bytes));
}
PLIMSOLL_REPLACES void* memalign(size_t alignment, size_t bytes) {
  return note_new(__libc_memalign(alignment, bytes));
}
PLIMSOLL_REPLACES void* aligned_alloc(size_t alignment, size_t bytes) {
  return note_new(__libc_memalign(alignment, bytes));
}
PLIMSOLL_REPLACES int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  void* got = note_new(__libc_memalign(alignment, bytes));
  if (got == nullptr) return ENOMEM;
  *memory = got;
  return 0;
}
PLIMSOLL_REPLACES void free(void* memory) {
  note_old(memory);
  __libc_free(memory);
}
PLIMSOLL_REPLACES void* realloc(void* memory, size_t bytes) {
  note_old(memory);
  void* moved = __libc_realloc(memory, bytes);
  if (moved == nullptr && bytes != 0 && memory != nullptr) return note_new(memory), nullptr;
  return note_new(moved);
}
PLIMSOLL_REPLACES void* reallocarray(void* memory, size_t count, size_t bytes) {
  size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(memory, all);
}

namespace {

void* map(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  const long got = ::syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
  auto* memory = reinterpret_cast<void*>(got);
  if (memory == MAP_FAILED || inside || bytes < kLarge) return memory;
  if ((flags & MAP_FIXED) != 0) unmap_blocks(memory, bytes);
  add_block(memory, bytes, true, part_now());
  return memory;
}

}  // namespace

PLIMSOLL_REPLACES void* mmap(void* address, size_t bytes, int protection, int flags, int file,
                             off_t offset) {
  return map(address, bytes, protection, flags, file, offset);
}
PLIMSOLL_REPLACES void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
                               off_t offset) {
  return map(address, bytes, protection, flags, file, offset);
}
PLIMSOLL_REPLACES int munmap(void* address, size_t bytes) {
  if (!inside) unmap_blocks(address, bytes);
  return static_cast<int>(::syscall(SYS_munmap, address, bytes));
}
PLIMSOLL_REPLACES void* mremap(void* address, size_t before, size_t bytes, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void* wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  const long got = ::syscall(SYS_mremap, address, before, bytes, flags, wanted);
  auto* memory = reinterpret_cast<void*>(got);
  if (memory == MAP_FAILED || inside) return memory;
  unmap_blocks(address, before);
  if (bytes >= kLarge) add_block(memory, bytes, true, part_now());
  return memory;
}
