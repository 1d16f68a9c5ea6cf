#include "data/csv/csv_header.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

namespace plimsoll::data {

bool is_label_name(std::string_view name) {
  const auto lower = [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  };
  return std::ranges::any_of(kLabelNames, [&](std::string_view usual) {
    return std::ranges::equal(usual, name, {}, {}, lower);
  });
}

HeaderOfWords::HeaderOfWords(std::span<const std::string_view> first)
    : first_(first), columns_(std::min(first.size(), kColumns)) {
  std::set<std::string_view> seen;
  for (const std::string_view name : first) {
    repeats_ = repeats_ || !seen.insert(name).second;
    names_label_ = names_label_ || is_label_name(name);
  }
}

void HeaderOfWords::look_at(std::span<const std::string_view> fields) {
  ++lines_;
  const size_t count = std::min(fields.size(), first_.size());
  for (size_t c = 0; c < count; ++c) {
    repeats_ = repeats_ || fields[c] == first_[c];
    if (c >= columns_.size()) continue;
    Values& values = columns_[c];
    const uint64_t hash = std::hash<std::string_view>{}(fields[c]);
    const auto known = values.hashes.begin() + std::min<size_t>(values.count, kFew);
    if (values.count > kFew || std::find(values.hashes.begin(), known, hash) != known) continue;
    if (values.count < kFew) values.hashes[values.count] = hash;
    ++values.count;
  }
}

bool HeaderOfWords::is_one() const {
  if (repeats_) return false;
  return names_label_ || std::ranges::any_of(columns_, [&](const Values& values) {
           return values.count > 0 && values.count <= kFew && lines_ >= values.count * kTimes;
         });
}

}  // namespace plimsoll::data
