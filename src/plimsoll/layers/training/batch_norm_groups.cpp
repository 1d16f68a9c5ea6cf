#include "layers/training/batch_norm_groups.h"

#include <array>
#include <charconv>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "graph/op.h"

namespace plimsoll::layers {
namespace {

constexpr std::string_view kFull = "full";
constexpr std::string_view kSlice = "slice:";

}  // namespace

int64_t parse_batch_norm(std::string_view text) {
  if (text == kFull) return 0;
  std::string suggestion;
  if (text.starts_with(kSlice)) {
    const std::string_view number = text.substr(kSlice.size());
    int64_t group = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), group);
    if (error == std::errc() && end == number.data() + number.size() && group > 0) return group;
  } else {
    constexpr std::array<std::string_view, 2> kNames = {"full", "slice"};
    suggestion = did_you_mean(text.substr(0, text.find(':')), kNames);
  }
  throw Error(ErrorKind::kConfig,
              "--batch-norm: expected full, or slice:N with groups of N samples, 1 or more, "
              "received \"" +
                  std::string(text) + "\"." + suggestion);
}

std::string batch_norm_text(int64_t group) {
  return group == 0 ? std::string(kFull) : fmt::format("{}{}", kSlice, group);
}

int64_t batch_norm_group_of(const graph::ProgramSet& programs) {
  for (const graph::Program& program : programs.programs) {
    for (size_t n = 0; n < program.graph.nodes.size(); ++n) {
      for (const graph::Axis& axis : graph::axes_of(program.graph, graph::NodeId(n))) {
        if (axis.group > 0) return axis.group;
      }
    }
  }
  return 0;
}

}  // namespace plimsoll::layers
