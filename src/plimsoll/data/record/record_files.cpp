#include "data/record/record_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "data/rows/folder_entries.h"
#include "data/rows/named_arrays.h"

namespace plimsoll::data {
namespace {

struct Shard {
  std::string set;  // as a pattern: "train-*-of-00008.gz"
  int64_t number = 0;
  int64_t count = 0;
};

// Takes digits off the end of `text`; none where there are none.
std::optional<int64_t> take_number(std::string_view& text) {
  const size_t after = text.find_last_not_of("0123456789");
  const size_t begin = after == std::string_view::npos ? 0 : after + 1;
  int64_t number = 0;
  const auto read = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  if (begin == text.size() || read.ec != std::errc()) return std::nullopt;
  text.remove_suffix(text.size() - begin);
  return number;
}

// name-00003-of-00008, perhaps with .tfrecord and .gz.
std::optional<Shard> shard_of(const std::string& file_name) {
  constexpr std::string_view kOf = "-of-";
  std::string_view name = file_name;
  for (const std::string_view ending : {".gz", ".tfrecord", ".tfrecords"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  Shard shard;
  const std::optional<int64_t> count = take_number(name);
  if (!count || !name.ends_with(kOf)) return std::nullopt;
  const size_t of = name.size() - kOf.size();
  name.remove_suffix(kOf.size());
  const std::optional<int64_t> number = take_number(name);
  if (!number || !name.ends_with('-') || *number >= *count) return std::nullopt;
  return Shard{std::string(name) + "*" + file_name.substr(of), *number, *count};
}

bool is_record_file(const std::string& name) {
  for (const std::string_view ending :
       {".tfrecord", ".tfrecords", ".tfrecord.gz", ".tfrecords.gz"}) {
    if (name.ends_with(ending)) return true;
  }
  return shard_of(name).has_value();
}

// One data set: all shards of one set and nothing beside them, or files that are no shards.
void check_sets(const std::string& path, const std::string& folder,
                const std::vector<std::string>& names) {
  std::map<std::string, std::vector<int64_t>> sets;
  int64_t count = 0;
  std::string beside;  // the first that is no shard
  for (const std::string& name : names) {
    if (const std::optional<Shard> shard = shard_of(name)) {
      sets[shard->set].push_back(shard->number);
      count = shard->count;
    } else if (beside.empty()) {
      beside = name;
    }
  }
  if (sets.empty()) return;
  if (sets.size() > 1 || !beside.empty()) {
    std::vector<std::string> found;
    found.reserve(sets.size() + 1);
    for (const auto& [set, numbers] : sets) found.push_back(set);
    if (!beside.empty()) found.push_back(beside);
    throw Error(ErrorKind::kData, path + ": expected the shards of one data set, received " +
                                      list_names(found) +
                                      ". Name one in quotation marks, as in --data '" + folder +
                                      "/" + sets.rbegin()->first + "'.");
  }
  auto& [set, numbers] = *sets.begin();
  std::ranges::sort(numbers);
  for (int64_t i = 0; i < count; ++i) {
    if (i < std::ssize(numbers) && numbers[static_cast<size_t>(i)] == i) continue;
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected all {} shards {}, received none of number {}. Fetch it, "
                            "or name one shard as --data.",
                            path, count, set, i));
  }
}

// Whether a name is like a pattern, in which a star stands for anything: for digits alone where
// `digits`.
bool matches(std::string_view name, std::string_view pattern, bool digits) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (size_t taken = 0; taken <= name.size(); ++taken) {
    if (matches(name.substr(taken), pattern, digits)) return true;
    if (taken == name.size() || (digits && (name[taken] < '0' || name[taken] > '9'))) break;
  }
  return false;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::error_code failed =
      visit_entries(folder, [&](const std::filesystem::directory_entry& entry) {
        std::error_code ignored;
        std::string name = entry.path().filename().string();
        if (is_record_file(name) && entry.is_regular_file(ignored)) {
          names.push_back(std::move(name));
        }
        return true;
      });
  if (failed) throw_io(folder, "list the folder", failed.value());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> paths_of(const std::string& folder,
                                  const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  paths.reserve(names.size());
  for (const std::string& name : names) paths.push_back(folder + "/" + name);
  return paths;
}

}  // namespace

bool is_shard_name(const std::string& path) {
  return shard_of(std::filesystem::path(path).filename().string()).has_value();
}

bool is_record_pattern(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  return path.find('*') != std::string::npos &&
         fs::path(path).filename().string().find('*') != std::string::npos &&
         !fs::exists(path, ignored);
}

std::vector<std::string> record_files_in(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  check_sets(folder, folder, names);
  return paths_of(folder, names);
}

std::vector<std::string> record_files_like(const std::string& pattern) {
  const std::filesystem::path path(pattern);
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  const std::vector<std::string> all = names_in(folder);
  std::vector<std::string> names;
  for (const bool digits : {true, false}) {
    if (!names.empty()) break;
    std::ranges::copy_if(all, std::back_inserter(names), [&](const std::string& name) {
      return matches(name, path.filename().string(), digits);
    });
  }
  if (names.empty()) {
    throw Error(ErrorKind::kData, pattern + ": expected TFRecord files of such names, received " +
                                      list_names(all) + " in the folder.");
  }
  check_sets(pattern, folder, names);
  return paths_of(folder, names);
}

std::string note_of_shard(const std::string& path) {
  const std::optional<Shard> shard = shard_of(std::filesystem::path(path).filename().string());
  if (!shard || shard->count < 2) return "";
  return fmt::format(
      "{}: read as one shard of {}; the folder of all of them is the whole data set.", path,
      shard->count);
}

}  // namespace plimsoll::data
