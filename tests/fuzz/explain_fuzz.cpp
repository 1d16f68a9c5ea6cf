// Any bytes through the explainer: no crash, no control character in its text, the same answer
// whatever the blocks they come in.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "explain/explainer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using plimsoll::explain::Explainer;
  using plimsoll::explain::Explanation;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Explanation whole = plimsoll::explain::explain_text(bytes);
  const std::string text = plimsoll::explain::to_text(whole, "log");
  for (char c : text) {
    if ((static_cast<uint8_t>(c) < 0x20 && c != '\n') || c == 0x7f) std::abort();
  }
  if (plimsoll::explain::to_json(whole, bytes.substr(0, 40)).empty()) std::abort();

  Explainer explainer;
  const size_t block = size == 0 ? 1 : 1 + data[0] % 61;
  for (size_t at = 0; at < size; at += block) explainer.feed(bytes.substr(at, block));
  if (!(explainer.finish() == whole)) std::abort();
  return 0;
}
