#include "data/record_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "data/folder_entries.h"

namespace plimsoll::data {
namespace {

struct Shard {
  std::string set;  // "train", of how many and with what behind it
  int64_t number = 0;
  int64_t count = 0;
};

// Takes digits off the end of `text`; none where there are none.
std::optional<int64_t> take_number(std::string_view& text) {
  const size_t behind = text.find_last_not_of("0123456789");
  const size_t begin = behind == std::string_view::npos ? 0 : behind + 1;
  int64_t number = 0;
  const auto read = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  if (begin == text.size() || read.ec != std::errc()) return std::nullopt;
  text.remove_suffix(text.size() - begin);
  return number;
}

// name-00003-of-00008, .gz and .tfrecord behind it aside.
std::optional<Shard> shard_of(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  for (const std::string_view ending : {".gz", ".tfrecord", ".tfrecords"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  Shard shard;
  const std::optional<int64_t> count = take_number(name);
  if (!count || !name.ends_with(kOf)) return std::nullopt;
  name.remove_suffix(kOf.size());
  const std::optional<int64_t> number = take_number(name);
  if (!number || !name.ends_with('-') || *number >= *count) return std::nullopt;
  return Shard{std::string(name) + "of " + std::to_string(*count), *number, *count};
}

bool is_record_file(const std::string& name) {
  for (const std::string_view ending :
       {".tfrecord", ".tfrecords", ".tfrecord.gz", ".tfrecords.gz"}) {
    if (name.ends_with(ending)) return true;
  }
  return shard_of(name).has_value();
}

// All shards of each set that any is there of.
void check_shards(const std::string& folder, const std::vector<std::string>& names) {
  std::map<std::string, std::vector<int64_t>> sets;
  std::map<std::string, int64_t> counts;
  for (const std::string& name : names) {
    const std::optional<Shard> shard = shard_of(name);
    if (!shard) continue;
    sets[shard->set].push_back(shard->number);
    counts[shard->set] = shard->count;
  }
  for (auto& [set, numbers] : sets) {
    std::ranges::sort(numbers);
    for (int64_t i = 0; i < counts[set]; ++i) {
      if (i < std::ssize(numbers) && numbers[static_cast<size_t>(i)] == i) continue;
      throw Error(ErrorKind::kData, folder + ": expected all shards " + set +
                                        ", received none of number " + std::to_string(i) +
                                        ". Fetch it, or name one shard as --data.");
    }
  }
}

}  // namespace

bool is_shard_name(const std::string& path) {
  return shard_of(std::filesystem::path(path).filename().string()).has_value();
}

std::vector<std::string> record_files_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::error_code failed =
      visit_entries(folder, [&](const std::filesystem::directory_entry& entry) {
        std::error_code ignored;
        std::string name = entry.path().filename().string();
        if (is_record_file(name) && entry.is_regular_file(ignored))
          names.push_back(std::move(name));
        return true;
      });
  if (failed) throw_io(folder, "list the folder", failed.value());
  std::ranges::sort(names);
  check_shards(folder, names);
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(folder + "/" + name);
  return paths;
}

std::string note_of_shard(const std::string& path) {
  const std::optional<Shard> shard = shard_of(std::filesystem::path(path).filename().string());
  if (!shard || shard->count < 2) return "";
  return path + ": read as one shard of " + std::to_string(shard->count) +
         "; the folder of all of them is the whole data set.";
}

}  // namespace plimsoll::data
