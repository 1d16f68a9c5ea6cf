// Any bytes as a command's output: what is kept of it is bounded and harmless on a terminal, and
// progress is counted, never below zero and never backwards.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "watch/output.h"
#include "watch/restart.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void require_plain(std::string_view line) {
  for (size_t i = 0; i < line.size(); ++i) {
    const auto c = static_cast<uint8_t>(line[i]);
    require(c >= 0x20 && c != 0x7f);
    // C1 controls, which some terminals take for escapes, are C2 80 … C2 9F.
    require(c != 0xc2 || i + 1 >= line.size() || static_cast<uint8_t>(line[i + 1]) >= 0xa0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using plimsoll::watch::Output;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Output output;
  const size_t block = size == 0 ? 1 : 1 + data[0] % 97;
  int64_t steps = 0;
  for (size_t at = 0, i = 0; at < size; at += block, ++i) {
    output.feed(i % 3 == 2 ? 1 : 0, bytes.substr(at, block));
    require(output.marks().steps() >= steps && output.marks().epochs() >= output.marks().fits());
    steps = output.marks().steps();
  }
  output.finish();
  require(output.bytes() == static_cast<int64_t>(size));
  require(output.last_lines().size() <= Output::kKeptLines);
  for (const std::string& line : output.last_lines()) {
    require(line.size() <= Output::kKeptBytes);
    require_plain(line);
  }
  const std::string clean = plimsoll::watch::clean_line(bytes, 4096);
  require_plain(clean);
  require(plimsoll::watch::clean_line(clean, 4096) == clean);

  const std::vector<std::string> words = plimsoll::watch::split_words(bytes);
  if (!words.empty()) {
    for (const auto change : {plimsoll::watch::half, plimsoll::watch::doubled}) {
      const auto changed = plimsoll::watch::change_argument(words, words.front(), change);
      require(!changed || changed->size() == words.size());
    }
  }
  return 0;
}
