#pragma once

// Whether the first line of a table of words alone names its columns. Internal to data.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plimsoll::data {

// What a column is called that is the label where nobody says which one is; the last counts most.
inline constexpr std::array<std::string_view, 4> kLabelNames = {"y", "class", "target", "label"};
bool is_label_name(std::string_view name);

// Names are all different and stand nowhere below. Besides, one of them is what labels are called,
// or a column below has few values, so that one more would have come again.
class HeaderOfWords {
 public:
  explicit HeaderOfWords(std::span<const std::string_view> first);

  // A line below; at most 255 are of use.
  void look_at(std::span<const std::string_view> fields);
  bool is_one() const;

 private:
  static constexpr size_t kColumns = 256;  // whose values are counted
  static constexpr size_t kFew = 12;
  // A column has few values where each came so often, on the average.
  static constexpr size_t kTimes = 8;

  struct Values {
    std::array<uint64_t, kFew> hashes{};
    uint8_t count = 0;  // above kFew: many
  };

  std::span<const std::string_view> first_;
  std::vector<Values> columns_;
  size_t lines_ = 0;
  bool repeats_ = false;
  bool names_label_ = false;
};

}  // namespace plimsoll::data
