#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"

namespace plimsoll {
namespace {

int open_retrying(const char* path, int flags, mode_t mode) {
  int descriptor = -1;
  do {
    descriptor = ::open(path, flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

std::string_view next_step_for(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "Check the path.";
    case EACCES:
    case EPERM:
    case EROFS:
      return "Check the permissions, or name another place.";
    case ENOSPC:
    case EDQUOT:
      return "Free some space, or name a place with more.";
    default:
      return "";
  }
}

// The folder part of a path, "." where there is none.
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Where a chain of symbolic links ends, or `path` itself when nothing is there yet.
std::string resolve_links(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string result(resolved);
  std::free(resolved);
  return result;
}

[[noreturn]] void throw_unopened(const std::string& path, int error_number) {
  std::string near;
  if (error_number == ENOENT) near = did_you_mean_file(path);
  throw_io(path, "open it for reading", error_number,
           near.empty() ? near : near.substr(near.find_first_not_of(' ')));
}

void check_is_regular_file(int descriptor, const std::string& path) {
  struct stat info = {};
  if (::fstat(descriptor, &info) != 0) throw_io(path, "read its size", errno);
  if (S_ISDIR(info.st_mode)) throw_io(path, "open it as a file", EISDIR, "Name a file in it.");
}

}  // namespace

void throw_io(const std::string& path, std::string_view action, int error_number,
              std::string_view next_step) {
  std::string text = path + ": cannot " + std::string(action) + ": " +
                     std::generic_category().message(error_number) + ".";
  if (next_step.empty()) next_step = next_step_for(error_number);
  if (!next_step.empty()) text += " " + std::string(next_step);
  throw Error(ErrorKind::kIo, std::move(text));
}

File::File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

File File::open_read(const std::string& path) {
  const int descriptor = open_retrying(path.c_str(), O_RDONLY, 0);
  if (descriptor < 0) throw_unopened(path, errno);
  File file(descriptor, path);
  check_is_regular_file(descriptor, path);
  return file;
}

File File::create(const std::string& path) {
  const int descriptor = open_retrying(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0666);
  if (descriptor < 0) throw_io(path, "create it", errno);
  return File(descriptor, path);
}

File File::open_or_create(const std::string& path) {
  const int descriptor = open_retrying(path.c_str(), O_RDWR | O_CREAT, 0666);
  if (descriptor < 0) throw_io(path, "create it", errno);
  return File(descriptor, path);
}

File File::unlinked(const std::string& folder) {
  const std::string label = folder + "/(temporary)";
  int descriptor = open_retrying(folder.c_str(), O_RDWR | O_TMPFILE | O_EXCL, 0600);
  if (descriptor >= 0) return File(descriptor, label);
  // Not every file system knows nameless files: a named one, removed at once, is the same.
  std::string name = folder + "/.plimsoll-XXXXXX";
  descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) throw_io(folder, "create a temporary file in it", errno);
  File file(descriptor, label);
  if (::unlink(name.c_str()) != 0) throw_io(name, "remove it", errno);
  return file;
}

File File::past_cache() const {
  const int access = ::fcntl(descriptor_, F_GETFL) & O_ACCMODE;
  const std::string link = fmt::format("/proc/self/fd/{}", descriptor_);
  return File(open_retrying(link.c_str(), access | O_DIRECT, 0), path_);
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int64_t File::size() const {
  struct stat info = {};
  if (::fstat(descriptor_, &info) != 0) throw_io(path_, "read its size", errno);
  return info.st_size;
}

size_t File::read_some_at(int64_t offset, std::span<std::byte> destination) const {
  size_t done = 0;
  while (done < destination.size()) {
    const ssize_t count = ::pread(descriptor_, destination.data() + done, destination.size() - done,
                                  offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_io(path_, "read from it", errno);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

void File::read_at(int64_t offset, std::span<std::byte> destination) const {
  const size_t done = read_some_at(offset, destination);
  if (done == destination.size()) return;
  const int64_t end = offset + static_cast<int64_t>(destination.size());
  throw Error(ErrorKind::kIo, fmt::format("{}: expected at least {} bytes, received {}. The file "
                                          "is cut short; fetch or write it again.",
                                          path_, end, offset + static_cast<int64_t>(done)));
}

void File::write_at(int64_t offset, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                   offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_io(path_, "write to it", errno);
    done += static_cast<size_t>(count);
  }
}

void File::resize(int64_t size) {
  if (::ftruncate(descriptor_, size) != 0) throw_io(path_, "change its size", errno);
}

void File::sync() {
  if (::fsync(descriptor_) != 0) throw_io(path_, "write it to the device", errno);
}

void File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR) {
    throw_io(path_, "close it", errno);
  }
}

void File::advise(Access access) const {
  int advice = POSIX_FADV_NORMAL;
  if (access == Access::kSequential) advice = POSIX_FADV_SEQUENTIAL;
  if (access == Access::kRandom) advice = POSIX_FADV_RANDOM;
  // A hint: a file that takes none (a pipe) is read all the same.
  (void)::posix_fadvise(descriptor_, 0, 0, advice);
}

void File::prefetch(int64_t offset, int64_t length) const {
  // Linux reads no more than a device takes at once (often 512 KiB to 1280 KiB) for one advice and
  // forgets the rest.
  constexpr int64_t kPiece = 256 << 10;
  for (int64_t done = 0; done < length; done += kPiece) {
    (void)::posix_fadvise(descriptor_, offset + done, std::min(kPiece, length - done),
                          POSIX_FADV_WILLNEED);
  }
}

double File::cached_share() const {
  constexpr int64_t kProbes = 64;
  const int64_t bytes = size();
  const auto page = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  if (bytes == 0) return 0;
  // A mapping that nobody touches takes no memory.
  const auto length = static_cast<size_t>(bytes);
  void* mapping = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (mapping == MAP_FAILED) return 0;
  int64_t cached = 0;
  for (int64_t i = 0; i < kProbes; ++i) {
    const int64_t at = (bytes - 1) / kProbes * i / page * page;
    unsigned char state = 0;
    cached += ::mincore(static_cast<std::byte*>(mapping) + at, 1, &state) == 0 ? state & 1 : 0;
  }
  ::munmap(mapping, length);
  return static_cast<double>(cached) / kProbes;
}

void File::drop_cache(int64_t offset, int64_t length) const {
  (void)::posix_fadvise(descriptor_, offset, length, POSIX_FADV_DONTNEED);
}

AtomicFile::AtomicFile(const std::string& path) : path_(resolve_links(path)) {
  static std::atomic<unsigned> counter = 0;
  struct stat info = {};
  const bool exists = ::stat(path_.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    throw Error(ErrorKind::kIo, path +
                                    ": expected the name of a file to write, received something "
                                    "that is not a regular file. Name another one.");
  }
  const size_t slash = path_.rfind('/');
  const std::string name = slash == std::string::npos ? path_ : path_.substr(slash + 1);
  temporary_path_ = fmt::format("{}/.{}.{}-{}.tmp", folder_of(path_), name.substr(0, NAME_MAX / 2),
                                ::getpid(), counter++);
  try {
    file_ = File::create(temporary_path_);
  } catch (Error& error) {
    error.add_context("while writing " + path);
    throw;
  }
  if (exists) (void)::fchmod(file_.descriptor(), info.st_mode & 07777);
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_path_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  file_.write_at(end_, bytes);
  end_ += static_cast<int64_t>(bytes.size());
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit() {
  if (committed_) return;
  file_.sync();
  file_.close();
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) throw_io(path_, "replace it", errno);
  committed_ = true;
  // The rename itself is durable only when the folder is; a folder that cannot be opened for that
  // (no read permission) leaves a file that is whole all the same.
  const int folder = open_retrying(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY, 0);
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
}

std::string read_text_file(const std::string& path, int64_t max_bytes) {
  const File file = File::open_read(path);
  constexpr size_t kPiece = 16 * 1024;
  std::string text;
  // By pieces, not by size: files under /proc and pipes tell none. What others tell spares copies.
  text.reserve(static_cast<size_t>(std::min(file.size(), max_bytes)) + kPiece);
  while (true) {
    const size_t before = text.size();
    text.resize(before + kPiece);
    const auto piece = std::as_writable_bytes(std::span(text).subspan(before));
    const size_t count = file.read_some_at(static_cast<int64_t>(before), piece);
    text.resize(before + count);
    if (static_cast<int64_t>(text.size()) > max_bytes) {
      throw Error(
          ErrorKind::kIo,
          fmt::format(
              "{}: expected at most {} bytes, received more. Check that it is the right file.",
              path, max_bytes));
    }
    if (count < kPiece) return text;
  }
}

void write_text_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace plimsoll
