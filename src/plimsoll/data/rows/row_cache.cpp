#include "data/rows/row_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/shape.h"
#include "base/spill_folder.h"
#include "codec/image/image.h"
#include "data/rows/folder_entries.h"
#include "data/rows/npy_sink.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

// One more whenever the same files become other samples: by how images and masks are decoded and
// resized, or by how a cache is laid out.
constexpr int kDecodingVersion = 1;

// What stays of a run that was killed while it wrote; one that writes is younger.
constexpr std::chrono::minutes kAbandoned(10);

// What decoding and writing leave in the heap, and the pages of code that they took: measured.
constexpr Bytes kWritingLeaves = 512_KiB;

// Rows of the cache, or those that were to be cached, under the names of their files.
class CachedRows final : public RowSource {
 public:
  CachedRows(std::unique_ptr<RowSource> rows, std::shared_ptr<const SampleFolder> files,
             Bytes beside)
      : rows_(std::move(rows)),
        files_(std::move(files)),
        origin_(files_->path()),
        beside_(beside) {}

  int64_t row_count() const override { return rows_->row_count(); }
  const std::vector<int64_t>& row_shape() const override { return rows_->row_shape(); }
  DType stored_dtype() const override { return DType::kFloat32; }  // of samples that are decoded
  const std::string& origin() const override { return origin_; }
  std::string name_of(int64_t row) const override { return files_->file(row); }
  Bytes resident_bytes() const override { return rows_->resident_bytes() + beside_; }
  Bytes stack_bytes() const override { return rows_->stack_bytes(); }
  void read(int64_t first, int64_t count, DType dtype, void* destination) override {
    rows_->read(first, count, dtype, destination);
  }
  bool reads_together() const override { return rows_->reads_together(); }
  bool can_read_as(DType dtype) const override { return rows_->can_read_as(dtype); }
  void expect_order(bool random) override { rows_->expect_order(random); }
  Bytes wants_ahead(int64_t ranges, int64_t rows) const override {
    return rows_->wants_ahead(ranges, rows);
  }
  void grant_ahead(Bytes bytes, int64_t ranges, int64_t rows) override {
    rows_->grant_ahead(bytes, ranges, rows);
  }
  void read_ahead(int64_t first, int64_t count) override { rows_->read_ahead(first, count); }
  int64_t lookahead() const override { return rows_->lookahead(); }
  void announce(std::span<const int64_t> rows) override { rows_->announce(rows); }

 private:
  std::unique_ptr<RowSource> rows_;
  std::shared_ptr<const SampleFolder> files_;
  std::string origin_;
  Bytes beside_;
};

std::string source_name(const CacheRequest& request, const SampleFolder& files) {
  std::error_code failed;
  const fs::path whole = fs::weakly_canonical(files.path(), failed);
  Fingerprint source;
  source.add(failed ? files.path() : whole.string()).add(request.form);
  for (const int64_t extent : request.row_shape) source.add(static_cast<uint64_t>(extent));
  return "images-" + to_hex(source.value()) + "-";
}

std::string content_name(const CacheRequest& request, const SampleFolder& files) {
  Fingerprint content;
  content.add(request.decoding);
  for (int64_t i = 0; i < files.count(); ++i) {
    const std::string path = files.file(i);
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) throw_io(path, "read its size", errno);
    content.add(std::string_view(path).substr(files.path().size()))
        .add(static_cast<uint64_t>(status.st_size))
        .add(static_cast<uint64_t>(status.st_mtim.tv_sec))
        .add(static_cast<uint64_t>(status.st_mtim.tv_nsec));
  }
  return to_hex(content.value()) + ".npy";
}

// Null where there is none, or none that is whole.
std::unique_ptr<RowSource> open_cache(const std::string& path, const CacheRequest& request,
                                      int64_t row_count) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return nullptr;
  try {
    std::unique_ptr<RowSource> rows = open_rows(path, "");
    const bool same = rows->row_count() == row_count && rows->row_shape() == request.row_shape;
    return same ? std::move(rows) : nullptr;
  } catch (const Error&) {
    return nullptr;  // it is written anew
  }
}

// Caches of the same source whose files were others, and what a killed run left behind.
void remove_stale(const std::string& folder, const std::string& source) {
  const auto now = fs::file_time_type::clock::now();
  std::vector<fs::path> stale;
  visit_entries(folder, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(source)) stale.push_back(entry.path());
    // A temporary name is the name after a dot.
    if (!name.starts_with("." + source)) return true;
    std::error_code unknown;
    const auto written = entry.last_write_time(unknown);
    if (!unknown && now - written > kAbandoned) stale.push_back(entry.path());
    return true;
  });
  std::error_code ignored;  // what stays is removed by a later run
  for (const fs::path& path : stale) fs::remove(path, ignored);
}

// Writing of samples as they are decoded; the first failure ends it.
class Writing {
 public:
  template <typename Action>
  bool attempt(const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo) throw;
      failure_ = error.what();
    }
    return failure_.empty();
  }
  const std::string& failure() const { return failure_; }

 private:
  std::string failure_;
};

// Asks for the rows after `first` too.
void announce(RowSource& rows, int64_t first) {
  std::array<int64_t, RowSource::kMostAhead> next;
  const int64_t count = std::min(rows.lookahead(), rows.row_count() - first);
  for (int64_t i = 0; i < count; ++i) next[static_cast<size_t>(i)] = first + i;
  if (count > 0) rows.announce(std::span(next).first(static_cast<size_t>(count)));
}

// Whether the file is there now; `why` says why not.
bool write_cache(const std::string& path, CacheInput& input, std::string& why) {
  RowSource& rows = *input.rows;
  const auto elements = static_cast<size_t>(fixed_shape(rows.row_shape()).element_count(1));
  std::vector<float> sample(elements);
  std::vector<uint8_t> numbers(input.dtype == DType::kUInt8 ? elements : 0);
  const void* const row =
      numbers.empty() ? static_cast<const void*>(sample.data()) : numbers.data();
  Writing writing;
  std::optional<NpySink> sink;
  bool good =
      writing.attempt([&] { sink.emplace(path, input.dtype, rows.row_count(), rows.row_shape()); });
  for (int64_t i = 0; good && i < rows.row_count(); ++i) {
    announce(rows, i);
    rows.read(i, 1, DType::kFloat32, sample.data());
    std::transform(sample.begin(), sample.begin() + std::ssize(numbers), numbers.begin(),
                   [](float value) { return static_cast<uint8_t>(value); });
    good = writing.attempt([&] { sink->take(0, i, 1, row); });
  }
  good = good && writing.attempt([&] { sink->finish(); });
  why = writing.failure();
  return good;
}

// Empty where a file of that size may be written.
std::string find_objection(const CacheRequest& request, Bytes size) {
  std::error_code failed;
  fs::create_directories(request.folder, failed);
  if (failed) return request.folder + ": cannot create the folder: " + failed.message() + ".";
  const Bytes limit = request.limit.value_or(Bytes(free_space(request.folder).count() / 2));
  if (size <= limit) return "";
  return fmt::format("{}: the samples take {}, {}{}.", request.folder, to_string(size),
                     request.limit ? "--cache-limit is " : "half of the free space is ",
                     to_string(limit));
}

}  // namespace

std::string decoding_version() {
  return fmt::format("{}, {}", kDecodingVersion, codec::image_libraries());
}

std::unique_ptr<RowSource> cached_rows(const CacheRequest& request,
                                       std::shared_ptr<const SampleFolder> files,
                                       const std::function<CacheInput()>& make,
                                       std::vector<std::string>& notes) {
  const std::string source = source_name(request, *files);
  const std::string path = request.folder + "/" + source + content_name(request, *files);
  const int64_t count = files->count();
  const auto found = [&](Bytes beside) -> std::unique_ptr<RowSource> {
    std::unique_ptr<RowSource> rows = open_cache(path, request, count);
    if (rows == nullptr) return nullptr;
    return std::make_unique<CachedRows>(std::move(rows), files, files->resident_bytes() + beside);
  };
  if (auto rows = found(Bytes())) return rows;
  CacheInput input = make();
  const int64_t elements = fixed_shape(request.row_shape).element_count(1) * count;
  const Bytes size = element_bytes(input.dtype) * elements;
  std::string objection;
  Writing writing;  // of what is asked of the folder
  writing.attempt([&] {
    objection = find_objection(request, size);
    if (objection.empty()) remove_stale(request.folder, source);
  });
  if (objection.empty()) objection = writing.failure();
  if (objection.empty() && write_cache(path, input, objection)) {
    if (auto rows = found(kWritingLeaves)) return rows;
    objection = path + ": it was written, and cannot be read.";
  }
  notes.push_back("--cache: going on without. " + objection);
  return std::make_unique<CachedRows>(std::move(input.rows), std::move(files), kWritingLeaves);
}

}  // namespace plimsoll::data
