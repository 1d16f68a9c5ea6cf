#pragma once

// What a limit is answered with.

#include <cstdint>
#include <string_view>

namespace plimsoll {

// There is a plan; it is proved that there can be none; neither was found.
enum class Verdict : uint8_t { kFits, kImpossible, kNotFound };

// "fits", "impossible", "not_found": as scripts read it.
constexpr std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFits:
      return "fits";
    case Verdict::kImpossible:
      return "impossible";
    case Verdict::kNotFound:
      break;
  }
  return "not_found";
}

}  // namespace plimsoll
