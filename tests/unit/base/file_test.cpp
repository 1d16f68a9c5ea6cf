#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spill_folder.h"
#include "unit/base/expect_error.h"
#include "unit/base/temporary_folder.h"

namespace plimsoll {
namespace {

using test::expect_error;
using test::TemporaryFolder;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(File, ReadsAndWritesAtOffsets) {
  const TemporaryFolder folder;
  File file = File::create(folder / "a");
  file.write_at(0, bytes_of("hello world"));
  file.write_at(6, bytes_of("W"));
  EXPECT_EQ(file.size(), 11);
  std::string word(5, ' ');
  file.read_at(6, std::as_writable_bytes(std::span(word)));
  EXPECT_EQ(word, "World");
  EXPECT_EQ(file.read_some_at(9, std::as_writable_bytes(std::span(word))), 2u);
  file.advise(File::Access::kRandom);
  file.drop_cache(0, 0);
  file.resize(3);
  file.sync();
  EXPECT_EQ(file.size(), 3);
  expect_error(ErrorKind::kIo, "expected at least 5 bytes, received 3",
               [&] { file.read_at(0, std::as_writable_bytes(std::span(word))); });
  File moved = std::move(file);
  EXPECT_FALSE(file.is_open());
  EXPECT_EQ(moved.size(), 3);
  moved.close();
  EXPECT_FALSE(moved.is_open());
}

TEST(File, FailuresNameThePathAndTheReason) {
  const TemporaryFolder folder;
  const std::string missing = folder / "missing";
  expect_error(ErrorKind::kIo, missing + ": cannot open it for reading: No such file or directory",
               [&] { File::open_read(missing); });
  write_text_file(folder / "x_train.npy", "x");
  expect_error(ErrorKind::kIo, "No such file or directory. Did you mean \"x_train.npy\"?",
               [&] { File::open_read(folder / "X_trian.npy"); });
  expect_error(ErrorKind::kIo, "Is a directory", [&] { File::open_read(folder.path()); });
  expect_error(ErrorKind::kIo, "cannot create it", [&] { File::create(folder / "no/such/x"); });
  File full = File::create("/dev/full");
  expect_error(ErrorKind::kIo, "No space left on device. Free some space",
               [&] { full.write_at(0, bytes_of("x")); });
}

TEST(File, UnlinkedHasNoName) {
  const TemporaryFolder folder;
  File file = File::unlinked(folder.path());
  file.write_at(100, bytes_of("end"));
  EXPECT_EQ(file.size(), 103);
  EXPECT_EQ(folder.count_entries(), 0);
  expect_error(ErrorKind::kIo, "temporary file", [&] { File::unlinked(folder / "none"); });
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const std::string path = folder.write("out", "old");
  {
    AtomicFile file(path);
    file.write("half");
    EXPECT_EQ(TemporaryFolder::read(path), "old");
  }
  EXPECT_EQ(TemporaryFolder::read(path), "old");
  EXPECT_EQ(folder.count_entries(), 1);
  AtomicFile file(path);
  file.write("new ");
  file.write("content");
  file.commit();
  EXPECT_EQ(TemporaryFolder::read(path), "new content");
  EXPECT_EQ(folder.count_entries(), 1);
}

TEST(AtomicFile, KeepsPermissionsAndFollowsLinks) {
  const TemporaryFolder folder;
  const std::string path = folder.write("real", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_EQ(::symlink("real", (folder / "link").c_str()), 0);
  write_text_file(folder / "link", "new");
  struct stat info = {};
  ASSERT_EQ(::lstat((folder / "link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_EQ(TemporaryFolder::read(path), "new");
}

TEST(AtomicFile, RefusesWhatCannotBeReplaced) {
  const TemporaryFolder folder;
  expect_error(ErrorKind::kIo, "not a regular file", [&] { AtomicFile file(folder.path()); });
  expect_error(ErrorKind::kIo, "No such file", [&] { AtomicFile file(folder / "none/x"); });
}

TEST(File, ReadsTextUpToABound) {
  const TemporaryFolder folder;
  const std::string text(40000, 'y');
  EXPECT_EQ(read_text_file(folder.write("t", text), 40000), text);
  expect_error(ErrorKind::kIo, "at most 39999 bytes", [&] { read_text_file(folder / "t", 39999); });
  EXPECT_EQ(read_text_file(folder.write("empty", ""), 10), "");
}

TEST(SpillFolder, TakesTheFirstDiskFolder) {
  EXPECT_EQ(choose_spill_folder("/var/tmp"), "/var/tmp");
  EXPECT_GT(free_space("/var/tmp"), Bytes(0));
  expect_error(ErrorKind::kConfig, "No such file", [] { choose_spill_folder("/no/such/folder"); });
  expect_error(ErrorKind::kConfig, "not a folder", [] { choose_spill_folder("/proc/self/stat"); });
}

TEST(SpillFolder, RefusesAMemoryFileSystem) {
  struct stat info = {};
  if (::stat("/dev/shm", &info) != 0) GTEST_SKIP() << "this machine has no /dev/shm";
  expect_error(ErrorKind::kConfig, "memory file system", [] { choose_spill_folder("/dev/shm"); });
}

}  // namespace
}  // namespace plimsoll
