#include "data/rows/sample_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "data/rows/folder_entries.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

// By the end of the name, as Keras does: a name may be nothing else.
bool is_sample(const fs::path& path, SampleFolder::Kind kind) {
  std::string name = path.filename().string();
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto ends = [&](const char* ending) { return name.ends_with(ending); };
  if (kind == SampleFolder::Kind::kTexts) return ends(".txt");
  return ends(".jpg") || ends(".jpeg") || ends(".png") || ends(".bmp") || ends(".gif") ||
         ends(".webp");
}

// Keras's order: folders by their paths, and the names within each.
bool comes_before(std::string_view a, std::string_view b) {
  const auto folder = [](std::string_view path) {
    return path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/'));
  };
  const std::string_view first = folder(a);
  const std::string_view second = folder(b);
  return first == second ? a < b : first < second;
}

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> names;
  const std::error_code failed = visit_entries(path, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    const std::string name = entry.path().filename().string();
    if (entry.is_directory(ignored) && !name.starts_with('.')) names.push_back(name);
    return true;
  });
  if (failed) throw_io(path, "list the folder", failed.value());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

SampleFolder::SampleFolder(const std::string& path, Layout layout,
                           const std::vector<std::string>* classes, Kind kind)
    : path_(path), kind_(kind) {
  if (layout == Layout::kFlat) {
    groups_.push_back({0, 0});
    list_files(path + "/", false);
  } else {
    const std::vector<std::string> names = folders_in(path);
    classes_ = classes == nullptr ? names : *classes;
    for (const std::string& name : names) list_class(name);
  }
  text_.shrink_to_fit();
  starts_.shrink_to_fit();
  if (count() > 0) return;
  const std::string wanted = kind == Kind::kTexts ? "texts (files that end in .txt)"
                                                  : "JPEG, PNG, BMP, GIF or WebP images";
  throw Error(ErrorKind::kData, path + ": expected " +
                                    (layout == Layout::kFlat ? wanted
                                                             : "a folder of class folders with " +
                                                                   wanted + " in them") +
                                    ", received none.");
}

SampleFolder::Loose SampleFolder::find_loose(const std::string& path, Kind kind) {
  Loose loose;
  const std::error_code failed = visit_entries(path, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    std::string name = entry.path().filename().string();
    if (name.starts_with('.') || !entry.is_regular_file(ignored) ||
        !is_sample(entry.path(), kind)) {
      return true;
    }
    if (loose.count++ == 0 || name < loose.first) loose.first = std::move(name);
    return true;
  });
  if (failed) throw_io(path, "list the folder", failed.value());
  return loose;
}

std::vector<std::string> SampleFolder::filled_classes() const {
  std::vector<std::string> filled;
  for (size_t group = 0; group < groups_.size() && !classes_.empty(); ++group) {
    const int64_t end = group + 1 < groups_.size() ? groups_[group + 1].first : count();
    if (end > groups_[group].first) filled.push_back(classes_[groups_[group].number]);
  }
  return filled;
}

bool SampleFolder::has_class_files(const std::string& path, Kind kind) {
  for (const std::string& name : folders_in(path)) {
    const std::string folder = path + "/" + name;
    std::error_code failed;
    auto files = fs::recursive_directory_iterator(folder, failed);
    for (; !failed && files != fs::end(files); files.increment(failed)) {
      std::error_code unreadable;
      if (files->is_regular_file(unreadable) && is_sample(files->path(), kind)) return true;
    }
    if (failed) throw_io(folder, "list the folder", failed.value());
  }
  return false;
}

void SampleFolder::list_class(const std::string& name) {
  const auto known = std::find(classes_.begin(), classes_.end(), name);
  if (known == classes_.end()) {
    throw Error(ErrorKind::kData, path_ + "/" + name +
                                      ": expected a folder named as one of the classes of the "
                                      "training data, received \"" +
                                      name + "\"." + did_you_mean(name, classes_));
  }
  groups_.push_back({count(), known - classes_.begin()});
  list_files(path_ + "/" + name, true);
}

void SampleFolder::list_files(const std::string& folder, bool hidden) {
  const int64_t first = count();
  std::error_code failed;
  auto files = fs::recursive_directory_iterator(folder, failed);
  for (; !failed && files != fs::end(files); files.increment(failed)) {
    const fs::directory_entry& entry = *files;
    if (!hidden && entry.path().filename().string().starts_with('.')) {
      files.disable_recursion_pending();
      continue;
    }
    std::error_code unreadable;
    if (!entry.is_regular_file(unreadable) || !is_sample(entry.path(), kind_)) continue;
    const std::string relative = entry.path().string().substr(path_.size() + 1);
    if (text_.size() + relative.size() >= std::numeric_limits<uint32_t>::max()) {
      throw Error(ErrorKind::kData,
                  path_ + ": expected paths of at most 4 GiB together, received more.");
    }
    starts_.push_back(static_cast<uint32_t>(text_.size()));
    text_.append({relative.c_str(), relative.size() + 1});
    const uintmax_t bytes = entry.file_size(unreadable);
    if (!unreadable) file_bytes_ += static_cast<int64_t>(bytes);
  }
  if (failed) throw_io(folder, "list the folder", failed.value());
  std::sort(starts_.begin() + first, starts_.end(), [&](uint32_t a, uint32_t b) {
    return comes_before(text_.data() + a, text_.data() + b);
  });
}

std::string SampleFolder::file(int64_t index) const {
  return path_ + "/" + (text_.data() + starts_[static_cast<size_t>(index)]);
}

std::string_view SampleFolder::stem(int64_t index) const {
  const std::string_view path = text_.data() + starts_[static_cast<size_t>(index)];
  return path.substr(0, path.rfind('.'));  // a sample has an ending
}

void SampleFolder::reorder(const std::vector<int64_t>& order) {
  GrowingArray<uint32_t> starts;
  for (const int64_t index : order) starts.push_back(starts_[static_cast<size_t>(index)]);
  starts.shrink_to_fit();
  starts_ = std::move(starts);
}

int64_t SampleFolder::class_of(int64_t index) const {
  const auto after =
      std::upper_bound(groups_.begin(), groups_.end(), index,
                       [](int64_t value, const Group& group) { return value < group.first; });
  return std::prev(after)->number;
}

void SampleFolder::retain(const std::vector<bool>& keep) {
  size_t kept = 0;  // the table is made shorter where it is
  std::vector<Group> groups = groups_;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const auto end = group + 1 < groups_.size() ? groups_[group + 1].first : count();
    groups[group].first = static_cast<int64_t>(kept);
    for (int64_t i = groups_[group].first; i < end; ++i) {
      if (keep[static_cast<size_t>(i)]) starts_[kept++] = starts_[static_cast<size_t>(i)];
    }
  }
  starts_.truncate(kept);
  groups_ = std::move(groups);
}

Bytes SampleFolder::resident_bytes() const {
  int64_t bytes = static_cast<int64_t>(text_.held_bytes() + starts_.held_bytes() +
                                       groups_.capacity() * sizeof(Group));
  for (const std::string& name : classes_) {
    bytes += static_cast<int64_t>(sizeof(std::string) + name.size());
  }
  return Bytes(bytes);
}

}  // namespace plimsoll::data
