#include <algorithm>
#include <charconv>

#include "backend/kernel/backends.h"
#include "base/error.h"
#include "base/format.h"

namespace plimsoll::backend {
namespace {

[[noreturn]] void bad_id(std::string_view id, std::string_view part) {
  throw Error(
      ErrorKind::kConfig,
      "kernel set: expected an id such as \"reference/t1;batch<=4;block_set=1\", received \"" +
          std::string(id) + "\". Look at \"" + std::string(part) + "\".");
}

int64_t parse_number(std::string_view id, std::string_view part, std::string_view digits,
                     int64_t least) {
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  constexpr int64_t kMost = int64_t{1} << 31;
  if (error != std::errc() || stop != end || value < least || value > kMost) bad_id(id, part);
  return value;
}

// Takes the text up to the first ';' off the front.
std::string_view take_part(std::string_view& rest) {
  const size_t end = rest.find(';');
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

void parse_part(std::string_view id, std::string_view part, KernelSetOptions& options) {
  constexpr std::string_view kBlockSet = "block_set=";
  if (part.starts_with(kBlockSet)) {
    constexpr int64_t kMostHalvings = 62;
    const int64_t block_set = parse_number(id, part, part.substr(kBlockSet.size()), 0);
    if (block_set > kMostHalvings) bad_id(id, part);
    options.block_set = static_cast<int>(block_set);
    return;
  }
  const size_t sign = part.find("<=");
  if (sign == std::string_view::npos || sign == 0) bad_id(id, part);
  options.caps.emplace_back(part.substr(0, sign), parse_number(id, part, part.substr(sign + 2), 1));
}

}  // namespace

std::string kernel_set_id(std::string_view backend, const KernelSetOptions& options) {
  std::string id = fmt::format("{}/t{}", backend, options.parts);
  std::vector<std::pair<std::string, int64_t>> caps = options.caps;
  std::sort(caps.begin(), caps.end());
  for (const auto& [axis, most] : caps) id += fmt::format(";{}<={}", axis, most);
  if (options.block_set != 0) id += fmt::format(";block_set={}", options.block_set);
  return id;
}

KernelSetOptions parse_kernel_set(std::string_view id) {
  KernelSetOptions options;
  std::string_view rest = id;
  const std::string_view head = take_part(rest);
  const size_t slash = head.rfind("/t");
  if (slash == std::string_view::npos || slash == 0) bad_id(id, head);
  options.parts = static_cast<int>(parse_number(id, head, head.substr(slash + 2), 1));
  while (!rest.empty()) parse_part(id, take_part(rest), options);
  std::sort(options.caps.begin(), options.caps.end());
  return options;
}

}  // namespace plimsoll::backend
