#include "watch/output.h"

#include <algorithm>

namespace plimsoll::watch {
namespace {

// Length of a well-formed UTF-8 sequence at `at`, 0 if there is none.
size_t sequence_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                                       : 4;
  if (length == 0 || first > 0xf4 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  if (length == 3 && first == 0xe0 && byte(at + 1) < 0xa0) return 0;
  if (length == 3 && first == 0xed && byte(at + 1) > 0x9f) return 0;  // surrogates
  if (length == 4 && first == 0xf0 && byte(at + 1) < 0x90) return 0;
  if (length == 4 && first == 0xf4 && byte(at + 1) > 0x8f) return 0;
  return length;
}

// After the escape sequence that starts at `at`.
size_t skip_escape(std::string_view raw, size_t at) {
  size_t next = at + 1;
  if (next >= raw.size()) return next;
  const char kind = raw[next++];
  if (kind == '[') {  // control sequence: ends with @ … ~
    while (next < raw.size() && (raw[next] < '@' || raw[next] > '~')) ++next;
    return std::min(next + 1, raw.size());
  }
  if (kind == ']' || kind == 'P' || kind == '_' || kind == '^') {  // string: ends with BEL or ESC
    while (next < raw.size() && raw[next] != '\a' && raw[next] != '\x1b') ++next;
    if (next < raw.size() && raw[next] == '\x1b') ++next;
    return std::min(next + 1, raw.size());
  }
  return next;
}

}  // namespace

std::string clean_line(std::string_view raw, size_t most) {
  std::string text;
  for (size_t at = 0; at < raw.size() && text.size() < most;) {
    const auto byte = static_cast<unsigned char>(raw[at]);
    if (byte == 0x1b) {
      at = skip_escape(raw, at);
    } else if (byte == '\t') {
      text += ' ';
      ++at;
    } else if (byte < 0x20 || byte == 0x7f) {
      ++at;
    } else if (const size_t length = sequence_length(raw, at); length > 0) {
      // U+0080 … U+009F are control characters too.
      const bool control =
          length == 2 && byte == 0xc2 && static_cast<unsigned char>(raw[at + 1]) < 0xa0;
      if (!control && text.size() + length <= most) text += raw.substr(at, length);
      if (!control && text.size() + length > most) break;
      at += length;
    } else {
      text += '?';
      ++at;
    }
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

void Output::feed(size_t stream, std::string_view bytes) {
  bytes_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const size_t room = kMostLine - pending_[stream].size();
    const size_t end = bytes.substr(0, room + 1).find_first_of("\n\r\b");
    if (end != std::string_view::npos) {
      const bool empty = end == 0 && pending_[stream].empty() && !cut_[stream];
      if (!empty) {
        take(stream, bytes.substr(0, end), true);
      } else if (bytes[end] == '\n' && separator_[stream] != '\r') {
        explainer_.feed("\n");  // keeps its line numbers those of the output
      }
      separator_[stream] = bytes[end];
      bytes.remove_prefix(end + 1);
    } else if (bytes.size() >= room) {
      take(stream, bytes.substr(0, room), false);
      bytes.remove_prefix(room);
    } else {
      pending_[stream].append(bytes);
      return;
    }
  }
}

void Output::take(size_t stream, std::string_view piece, bool ends_line) {
  std::string& pending = pending_[stream];
  std::string_view line = piece;
  if (!pending.empty()) {
    pending.append(piece);
    line = pending;
  }
  if (!line.empty() || (ends_line && cut_[stream])) {
    explainer_.feed(line);
    if (ends_line) explainer_.feed("\n");
  }
  if (!cut_[stream] && !line.empty()) {
    std::string text = clean_line(line, kKeptBytes);
    if (text.find_first_not_of(' ') != std::string::npos) {
      marks_.read(text);
      if (lines_.size() == kKeptLines) lines_.pop_front();
      lines_.push_back(std::move(text));
    }
  }
  pending.clear();
  cut_[stream] = !ends_line;
}

explain::Explanation Output::finish() {
  for (size_t stream = 0; stream < kStreams; ++stream) {
    if (!pending_[stream].empty()) take(stream, {}, true);
  }
  return explainer_.finish();
}

}  // namespace plimsoll::watch
