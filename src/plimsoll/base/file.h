#pragma once

// Files as resources: opened, read exactly, written exactly, closed.
//
// All input and output of Plimsoll is positioned (pread, pwrite), never mapped: pages of a mapping
// count as resident memory of the process, page cache does not. AtomicFile makes results appear
// whole or not at all. Every failure is an Error of kind kIo that names the path, what was tried
// and the system's reason. Nothing here buffers.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// Throws kIo: `<path>: cannot <action>: <text of error_number>.` and `next_step` where given.
[[noreturn]] void throw_io(const std::string& path, std::string_view action, int error_number,
                           std::string_view next_step = "");

class File {
 public:
  // Expected order of reads, a hint to the kernel's read-ahead.
  enum class Access { kNormal, kSequential, kRandom };

  static File open_read(const std::string& path);
  // Created or emptied; readable as well.
  static File create(const std::string& path);
  // Created where there is none; its content stays. Readable and writable.
  static File open_or_create(const std::string& path);
  // A file without a name in `folder`; its space is free again when it is closed.
  static File unlinked(const std::string& folder);
  // A second way to the same file, past the kernel's cache: offsets, sizes and addresses are then
  // multiples of a sector. Closed where the file system has none.
  File past_cache() const;

  File() = default;  // closed
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  bool is_open() const { return descriptor_ >= 0; }
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }

  int64_t size() const;
  // Fills `destination` from byte `offset`; a file that ends before that is kIo.
  void read_at(int64_t offset, std::span<std::byte> destination) const;
  // As many bytes as there are, at most destination.size().
  size_t read_some_at(int64_t offset, std::span<std::byte> destination) const;
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  void resize(int64_t size);
  void sync();
  // Throws where closing fails (a full disk behind a network file system); the destructor does not.
  void close();

  void advise(Access access) const;
  // Asks the kernel to read [offset, offset + length) into its cache ahead of time.
  void prefetch(int64_t offset, int64_t length) const;
  // About how much of the file lies in the kernel's cache: of a few pages, 0 to 1. A system that
  // does not tell says 0.
  double cached_share() const;
  // Tells the kernel that its cached pages of [offset, offset + length) are not needed again;
  // length 0 means to the end.
  void drop_cache(int64_t offset, int64_t length) const;

 private:
  File(int descriptor, std::string path);

  int descriptor_ = -1;
  std::string path_;
};

// A file that replaces `path` in one step.
//
// Bytes go to a temporary name in the same folder; commit flushes them to the device and renames.
// Without a commit the temporary file is removed and `path` stays as it was. A symbolic link is
// followed: what it names is replaced. Permissions of a replaced file are kept.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(AtomicFile&&) = delete;
  ~AtomicFile();

  // The temporary file, for positioned writes. AtomicFile::write appends and counts on its own.
  File& file() { return file_; }
  const std::string& temporary_path() const { return temporary_path_; }
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  std::string path_;
  std::string temporary_path_;
  File file_;
  int64_t end_ = 0;
  bool committed_ = false;
};

// The whole of a file, refused (kIo) above `max_bytes`.
std::string read_text_file(const std::string& path, int64_t max_bytes);
// Written through AtomicFile.
void write_text_file(const std::string& path, std::string_view text);

}  // namespace plimsoll
