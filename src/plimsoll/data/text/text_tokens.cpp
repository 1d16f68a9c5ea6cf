#include "data/text/text_tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "codec/utf8.h"
#include "data/text/word_counts.h"

namespace plimsoll::data {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr size_t kMaxCharacters = 65'536;
constexpr size_t kMaxWordBytes = 1 << 16;
constexpr int64_t kMostWords = INT32_MAX;
constexpr int64_t kUsualWords = 10'000;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

[[noreturn]] void refuse(const codec::FileReader& file, int64_t offset, const std::string& what) {
  throw Error(ErrorKind::kData, fmt::format("{}: byte {}: {}", file.name(), offset, what));
}

// After the byte order mark, where there is one.
int64_t begin_of_text(const codec::FileReader& file) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  std::array<char, kMark.size()> start{};
  if (file.size() < std::ssize(kMark)) return 0;
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  return std::string_view(start.data(), start.size()) == kMark ? std::ssize(kMark) : 0;
}

// Zero bytes are those of UTF-16 without a mark, or of no text at all.
void check_utf8(const codec::FileReader& file, std::string_view text, int64_t offset) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = text[at] == 0 ? 0 : codec::utf8_length(text.substr(at));
    if (length == 0) {
      refuse(file, offset + static_cast<int64_t>(at),
             "expected UTF-8 text, received a byte that is none. Convert the file: iconv -f UTF-16 "
             "-t UTF-8, or from what it was written in.");
    }
    at += length;
  }
}

// Hands out every token in order, with the offset of its first byte.
void for_each_token(const codec::FileReader& file, bool words,
                    const std::function<void(std::string_view token, int64_t offset)>& take) {
  std::string text;
  int64_t base = begin_of_text(file);  // offset of text's first byte
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
        check_utf8(file, rest.substr(0, length), offset);
      } else {
        if (rest.size() < 4 && !last) break;  // it may be cut
        length = std::max<size_t>(codec::utf8_length(rest), 1);
        check_utf8(file, rest.substr(0, length), offset);
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

// Numbers of tokens by their text: places in a list of them, found by their hash. Eight to sixteen
// bytes a token.
class TokenTable {
 public:
  explicit TokenTable(const std::vector<std::string>& tokens) : tokens_(tokens) {
    slots_.assign(slots_for(tokens.size()), kFree);
    for (size_t i = 0; i < tokens.size(); ++i)
      slots_[slot_of(tokens[i])] = static_cast<uint32_t>(i);
  }
  static Bytes bytes_for(size_t tokens) {
    return Bytes(static_cast<int64_t>(slots_for(tokens) * sizeof(uint32_t)));
  }
  // -1: none of them.
  int64_t find(std::string_view token) const {
    const uint32_t number = slots_[slot_of(token)];
    return number == kFree ? -1 : static_cast<int64_t>(number);
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  static size_t slots_for(size_t tokens) { return std::bit_ceil(2 * tokens + 1); }
  size_t slot_of(std::string_view token) const {
    size_t slot = TextHash()(token) & (slots_.size() - 1);
    while (slots_[slot] != kFree && tokens_[slots_[slot]] != token) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }

  const std::vector<std::string>& tokens_;
  std::vector<uint32_t> slots_;
};

codec::NumberFormat token_format(size_t vocabulary) {
  codec::NumberFormat format;
  format.kind = codec::NumberFormat::Kind::kUnsigned;
  format.bytes = vocabulary <= 256 ? 1 : vocabulary <= 65536 ? 2 : 4;
  return format;
}

}  // namespace

Bytes Vocabulary::resident_bytes() const {
  auto bytes = static_cast<int64_t>(tokens.capacity() * sizeof(std::string));
  for (const std::string& token : tokens) bytes += text_bytes(token);
  return Bytes(bytes);
}

Vocabulary find_vocabulary(const std::shared_ptr<const codec::FileReader>& file, bool words,
                           int64_t most, const std::string& spill_directory) {
  Vocabulary vocabulary;
  vocabulary.words = words;
  if (words) {
    WordCounts counts(spill_directory);
    for_each_token(*file, words, [&](std::string_view token, int64_t) { counts.add(token); });
    const int64_t limit = std::min(most > 0 ? most : kUsualWords, kMostWords);
    vocabulary.tokens = most_frequent(counts, limit - 1);
    vocabulary.opening_peak = Bytes(counts.peak_bytes());
    if (!vocabulary.tokens.empty()) vocabulary.tokens.insert(vocabulary.tokens.begin(), "[UNK]");
  } else {
    std::set<std::string, std::less<>> characters;  // UTF-8 sorts as its codes do
    for_each_token(*file, words, [&](std::string_view token, int64_t offset) {
      if (characters.find(token) != characters.end()) return;
      characters.emplace(token);
      if (characters.size() > kMaxCharacters) {
        refuse(*file, offset, "expected at most 65536 different characters, received more.");
      }
    });
    vocabulary.tokens.assign(characters.begin(), characters.end());
  }
  if (vocabulary.tokens.empty()) {
    throw Error(ErrorKind::kData, file->name() + ": expected text, received none.");
  }
  // Words are counted and ranked before the list is whole; characters' set lies beside it. When it
  // is used, the table of numbers does.
  constexpr int64_t kNodeOfSet = 80;
  const Bytes listed = vocabulary.resident_bytes();
  const Bytes set = words ? Bytes() : Bytes(kNodeOfSet * std::ssize(vocabulary.tokens));
  vocabulary.opening_peak = max(vocabulary.opening_peak,
                                listed + max(set, TokenTable::bytes_for(vocabulary.tokens.size())));
  return vocabulary;
}

ArrayPlace tokenize(const std::shared_ptr<const codec::FileReader>& file,
                    const Vocabulary& vocabulary, const std::string& spill_directory) {
  const TokenTable numbers(vocabulary.tokens);
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
    const int64_t found = numbers.find(token);
    if (found < 0 && !vocabulary.words) {
      refuse(*file, offset,
             "expected a character of the training text, received \"" + std::string(token) + "\".");
    }
    const auto number = static_cast<uint64_t>(std::max<int64_t>(found, 0));
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
