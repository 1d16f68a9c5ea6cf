#include "data/text_tokens.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/spill_folder.h"
#include "codec/utf8.h"

namespace plimsoll::data {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr size_t kMaxCharacters = 65'536;
constexpr size_t kMaxWordBytes = 1 << 16;
constexpr int64_t kMaxCountBytes = 32 << 20;
constexpr int64_t kNodeBytes = 112;
constexpr int64_t kUsualWords = 10'000;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

[[noreturn]] void refuse(const codec::FileReader& file, int64_t offset, const std::string& what) {
  throw Error(ErrorKind::kData, file.name() + ": byte " + std::to_string(offset) + ": " + what);
}

// Hands out every token in order, with the offset of its first byte.
void for_each_token(const codec::FileReader& file, bool words,
                    const std::function<void(std::string_view token, int64_t offset)>& take) {
  std::string text;
  int64_t base = 0;  // offset of text's first byte
  for (bool last = false; !last;) {
    const size_t had = text.size();
    const int64_t left = file.size() - base - static_cast<int64_t>(had);
    const auto now = static_cast<size_t>(std::min<int64_t>(left, kPieceBytes));
    text.resize(had + now);
    file.read_at(base + static_cast<int64_t>(had),
                 std::as_writable_bytes(std::span(text)).subspan(had));
    last = left == static_cast<int64_t>(now);
    size_t at = 0;
    while (at < text.size()) {
      const int64_t offset = base + static_cast<int64_t>(at);
      const std::string_view rest = std::string_view(text).substr(at);
      size_t length = 1;
      if (words) {
        if (is_space(rest.front())) {
          ++at;
          continue;
        }
        length =
            static_cast<size_t>(std::find_if(rest.begin(), rest.end(), is_space) - rest.begin());
        if (length == rest.size() && !last) break;
        if (length > kMaxWordBytes) refuse(file, offset, "expected words of at most 64 KiB.");
      } else {
        if (rest.size() < 4 && !last) break;  // it may be cut
        length = codec::utf8_length(rest);
        if (length == 0) {
          refuse(file, offset,
                 "expected UTF-8 text, received a byte that is none. Convert the "
                 "file: iconv -t UTF-8.");
        }
      }
      take(rest.substr(0, length), offset);
      at += length;
    }
    if (words && text.size() - at > kMaxWordBytes) {
      refuse(file, base + static_cast<int64_t>(at), "expected words of at most 64 KiB.");
    }
    base += static_cast<int64_t>(at);
    text.erase(0, at);
  }
}

struct TextHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Numbers = std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>>;

std::vector<std::string> most_frequent(const Numbers& counts, int64_t most) {
  std::vector<std::pair<int64_t, std::string_view>> ranked;
  ranked.reserve(counts.size());
  for (const auto& [word, count] : counts) ranked.emplace_back(-count, word);
  std::sort(ranked.begin(), ranked.end());  // whatever the order of the table was
  const int64_t limit = most > 0 ? most : kUsualWords;
  std::vector<std::string> tokens = {"[UNK]"};
  for (const auto& [count, word] : ranked) {
    if (static_cast<int64_t>(tokens.size()) >= limit) break;
    tokens.emplace_back(word);
  }
  return tokens;
}

codec::NumberFormat token_format(size_t vocabulary) {
  codec::NumberFormat format;
  format.kind = codec::NumberFormat::Kind::kUnsigned;
  format.bytes = vocabulary <= 256 ? 1 : vocabulary <= 65536 ? 2 : 4;
  return format;
}

}  // namespace

Bytes Vocabulary::resident_bytes() const {
  int64_t bytes = 0;
  for (const std::string& token : tokens) {
    bytes += static_cast<int64_t>(sizeof(std::string) + (token.size() > 15 ? token.size() + 1 : 0));
  }
  return Bytes(bytes);
}

Vocabulary find_vocabulary(const std::shared_ptr<const codec::FileReader>& file, bool words,
                           int64_t most) {
  Numbers counts;
  int64_t held = 0;
  for_each_token(*file, words, [&](std::string_view token, int64_t offset) {
    const auto found = counts.find(token);
    if (found != counts.end()) {
      ++found->second;
      return;
    }
    counts.emplace(token, 1);
    held += kNodeBytes + static_cast<int64_t>(token.size());
    if (held > kMaxCountBytes || (!words && counts.size() > kMaxCharacters)) {
      refuse(*file, offset,
             words ? "expected a text whose different words fit in 32 MiB, received more."
                   : "expected at most 65536 different characters, received more.");
    }
  });
  if (counts.empty()) {
    throw Error(ErrorKind::kData, file->name() + ": expected text, received none.");
  }
  Vocabulary vocabulary;
  vocabulary.words = words;
  if (words) {
    vocabulary.tokens = most_frequent(counts, most);
  } else {
    for (const auto& [token, count] : counts) vocabulary.tokens.push_back(token);
    std::sort(vocabulary.tokens.begin(), vocabulary.tokens.end());  // UTF-8 sorts as its codes do
  }
  return vocabulary;
}

ArrayPlace tokenize(const std::shared_ptr<const codec::FileReader>& file,
                    const Vocabulary& vocabulary, const std::string& spill_directory) {
  Numbers numbers;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    numbers.emplace(vocabulary.tokens[i], static_cast<int64_t>(i));
  }
  auto out = std::make_shared<File>(File::unlinked(choose_spill_folder(spill_directory)));
  ArrayPlace place;
  place.format = token_format(vocabulary.tokens.size());
  std::vector<std::byte> buffer;
  buffer.reserve(kPieceBytes + sizeof(uint32_t));
  int64_t written = 0;
  const auto flush = [&]() {
    out->write_at(written, buffer);
    written += static_cast<int64_t>(buffer.size());
    buffer.clear();
  };
  for_each_token(*file, vocabulary.words, [&](std::string_view token, int64_t offset) {
    const auto found = numbers.find(token);
    if (found == numbers.end() && !vocabulary.words) {
      refuse(*file, offset,
             "expected a character of the training text, received \"" + std::string(token) + "\".");
    }
    const auto number = static_cast<uint64_t>(found == numbers.end() ? 0 : found->second);
    for (int i = 0; i < place.format.bytes; ++i) {
      buffer.push_back(static_cast<std::byte>((number >> (8 * i)) & 0xFF));
    }
    if (buffer.size() >= kPieceBytes) flush();
  });
  flush();
  place.file = std::make_shared<const codec::FileReader>(std::move(out), 0, written, file->name());
  place.shape = {written / place.format.bytes};
  return place;
}

}  // namespace plimsoll::data
