#include "codec/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "codec/utf8.h"

namespace plimsoll::codec {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kPrefixBytes = 8;  // magic and version
constexpr int64_t kMaxHeaderBytes = 1 << 20;
constexpr size_t kMaxRank = 32;  // NumPy's own
constexpr int64_t kMaxStringLength = 1 << 20;
constexpr size_t kWideBytes = 4;  // of a character of dtype U

[[noreturn]] void refuse(const ByteReader& file, const std::string& expected,
                         const std::string& received) {
  throw Error(ErrorKind::kData,
              file.name() + ": expected " + expected + ", received " + received + ".");
}

// The header's dictionary, as far as it is one: {'descr': …, 'fortran_order': …, 'shape': (…), }.
class Dictionary {
 public:
  Dictionary(std::string_view text, const ByteReader& file) : rest_(text), file_(file) {}

  NpyHeader parse() {
    need('{');
    while (!accept('}')) {
      const std::string key = take_string();
      need(':');
      if (key == "descr") {
        take_format();
      } else if (key == "fortran_order") {
        take_order();
      } else if (key == "shape") {
        take_shape();
      } else {
        fail();
      }
      if (!accept(',')) {
        need('}');
        break;
      }
    }
    if ((!format_ && !strings_) || !has_order_ || !has_shape_) fail();
    if (format_) header_.format = *format_;
    return header_;
  }
  // The type where it is one of strings.
  const std::optional<NpyStrings>& strings() const { return strings_; }
  const std::string& described() const { return described_; }

 private:
  [[noreturn]] void fail() {
    refuse(file_, "an .npy header with descr, fortran_order and shape", "something else");
  }
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) {
      rest_.remove_prefix(1);
    }
  }
  bool accept(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void need(char c) {
    if (!accept(c)) fail();
  }
  bool accept_word(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::string take_string() {
    skip_blanks();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) fail();
    const char quote = rest_.front();
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) fail();
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  void take_order() {
    has_order_ = true;
    if (accept_word("True")) {
      header_.fortran_order = true;
    } else if (!accept_word("False")) {
      fail();
    }
  }
  void take_shape() {
    has_shape_ = true;
    header_.shape.clear();
    need('(');
    while (!accept(')')) {
      header_.shape.push_back(take_extent());
      if (header_.shape.size() > kMaxRank) fail();
      if (!accept(',')) {
        need(')');
        break;
      }
    }
  }
  int64_t take_extent() {
    skip_blanks();
    int64_t value = 0;
    bool digits = false;
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; rest_.remove_prefix(1)) {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{rest_.front() - '0'}, &value)) {
        fail();
      }
      digits = true;
    }
    accept_word("L");  // Python 2 wrote long integers so
    if (!digits) fail();
    return value;
  }
  void take_format();

  std::string_view rest_;
  const ByteReader& file_;
  NpyHeader header_;
  std::optional<NumberFormat> format_;
  std::optional<NpyStrings> strings_;
  std::string described_;  // the type, as it is written
  bool has_order_ = false;
  bool has_shape_ = false;
};

std::optional<NumberFormat> parse_number_format(std::string_view text) {
  using Kind = NumberFormat::Kind;
  NumberFormat format;
  if (!text.empty() && std::string_view("<>|=").find(text.front()) != std::string_view::npos) {
    format.big_endian = text.front() == '>';
    text.remove_prefix(1);
  }
  if (text.size() != 2) return std::nullopt;
  const int bytes = text[1] - '0';
  format.bytes = bytes;
  const bool integer_size = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  const bool float_size = bytes == 2 || bytes == 4 || bytes == 8;
  if (text[0] == 'f' && float_size) {
    format.kind = Kind::kFloat;
  } else if (text[0] == 'i' && integer_size) {
    format.kind = Kind::kSigned;
  } else if (text[0] == 'u' && integer_size) {
    format.kind = Kind::kUnsigned;
  } else if (text[0] == 'b' && bytes == 1) {
    format.kind = Kind::kBool;
  } else {
    return std::nullopt;
  }
  if (format.bytes == 1) format.big_endian = false;
  return format;
}

// "<U7" and "|S12".
std::optional<NpyStrings> parse_string_format(std::string_view text) {
  NpyStrings strings;
  if (!text.empty() && std::string_view("<>|=").find(text.front()) != std::string_view::npos) {
    strings.big_endian = text.front() == '>';
    text.remove_prefix(1);
  }
  if (text.empty() || (text.front() != 'U' && text.front() != 'S')) return std::nullopt;
  strings.wide = text.front() == 'U';
  text.remove_prefix(1);
  const auto read = std::from_chars(text.data(), text.data() + text.size(), strings.bytes);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!whole || strings.bytes < 1 || strings.bytes > kMaxStringLength) return std::nullopt;
  if (strings.wide) strings.bytes *= static_cast<int64_t>(kWideBytes);
  return strings;
}

std::string describe_unknown(std::string_view descr) {
  std::string_view kind = descr;
  if (!kind.empty() && std::string_view("<>|=").find(kind.front()) != std::string_view::npos) {
    kind.remove_prefix(1);
  }
  const std::string shown = " (descr '" + std::string(descr.substr(0, 40)) + "')";
  if (kind.starts_with('O')) {
    return "pickled Python objects" + shown +
           ", which are never unpickled. Save the array again with a numeric dtype: "
           "np.save(path, x.astype('float32')); rows of unequal length must be padded first";
  }
  if (kind.starts_with('U') || kind.starts_with('S')) {
    return "text" + shown +
           ". Save class numbers instead of names: np.unique(x, "
           "return_inverse=True)[1]";
  }
  return "another element type" + shown + ". Save the array again with astype('float32')";
}

void Dictionary::take_format() {
  if (accept('[')) {
    refuse(file_, "an array of numbers",
           "an array of records. Save its columns as arrays of their own");
  }
  described_ = take_string();
  format_ = parse_number_format(described_);
  strings_ = parse_string_format(described_);
  if (!format_ && !strings_) refuse(file_, "an array of numbers", describe_unknown(described_));
}

// Length of the dictionary, from the two or four bytes after the version.
int64_t take_header_length(const ByteReader& file, int major, int64_t& offset) {
  const int width = major == 1 ? 2 : 4;
  std::array<std::byte, 4> field = {};
  if (file.size() < offset + width) refuse(file, "an .npy header", "an end in the middle of it");
  file.read_at(offset, std::span(field).first(static_cast<size_t>(width)));
  int64_t length = 0;
  for (int i = width - 1; i >= 0; --i) {
    length = length * 256 + std::to_integer<int64_t>(field[static_cast<size_t>(i)]);
  }
  offset += width;
  if (length > kMaxHeaderBytes) {
    refuse(file, "an .npy header of at most 1 MiB", fmt::format("one of {} bytes", length));
  }
  if (length > file.size() - offset) refuse(file, "an .npy header", "an end in the middle of it");
  return length;
}

// `bytes`: of an element.
void check_length(const ByteReader& file, const NpyHeader& header, int64_t bytes) {
  bool overflow = false;
  for (int64_t extent : header.shape) {
    overflow = overflow || __builtin_mul_overflow(bytes, extent, &bytes);
  }
  const int64_t present = file.size() - header.data_offset;
  const bool empty = std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end();
  if ((!overflow && bytes <= present) || empty) return;
  refuse(file,
         (overflow ? std::string("more than 2^63") : std::to_string(bytes)) +
             " bytes of elements, as its header says",
         fmt::format("{}. The file is cut short; copy or save it again", present));
}

}  // namespace

bool looks_like_npy(const ByteReader& file) {
  if (file.size() < kPrefixBytes) return false;
  std::array<char, kMagic.size()> start;
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  return std::string_view(start.data(), start.size()) == kMagic;
}

namespace {

// The header, and what the type is where it is one of strings.
struct ParsedHeader {
  NpyHeader header;
  std::optional<NpyStrings> strings;
  std::string described;
};

ParsedHeader parse_header(const ByteReader& file) {
  if (!looks_like_npy(file)) {
    refuse(file, "an .npy file", "something that does not begin as one. Save it with np.save");
  }
  std::array<std::byte, 2> version;
  file.read_at(static_cast<int64_t>(kMagic.size()), version);
  const int major = std::to_integer<int>(version[0]);
  if (major < 1 || major > 3) {
    refuse(file, "an .npy file of version 1, 2 or 3", fmt::format("version {}", major));
  }
  int64_t offset = kPrefixBytes;
  const int64_t length = take_header_length(file, major, offset);
  std::string text(static_cast<size_t>(length), '\0');
  file.read_at(offset, std::as_writable_bytes(std::span(text)));
  Dictionary dictionary(text, file);
  ParsedHeader parsed{dictionary.parse(), dictionary.strings(), dictionary.described()};
  parsed.header.data_offset = offset + length;
  const int64_t element = parsed.header.format.bytes;
  check_length(file, parsed.header, parsed.strings ? parsed.strings->bytes : element);
  return parsed;
}

}  // namespace

NpyHeader read_npy_header(const ByteReader& file) {
  ParsedHeader parsed = parse_header(file);
  if (parsed.strings) refuse(file, "an array of numbers", describe_unknown(parsed.described));
  return std::move(parsed.header);
}

std::optional<NpyStrings> read_npy_strings(const ByteReader& file) {
  ParsedHeader parsed = parse_header(file);
  if (!parsed.strings) return std::nullopt;
  parsed.strings->fortran_order = parsed.header.fortran_order;
  parsed.strings->shape = std::move(parsed.header.shape);
  parsed.strings->data_offset = parsed.header.data_offset;
  return std::move(parsed.strings);
}

void append_npy_string(const NpyStrings& format, std::span<const std::byte> stored,
                       std::string& text) {
  const size_t unit = format.wide ? kWideBytes : 1;
  size_t length = stored.size() / unit * unit;
  const auto is_padding = [&](size_t at) {
    return std::ranges::all_of(stored.subspan(at, unit),
                               [](std::byte b) { return b == std::byte{}; });
  };
  while (length > 0 && is_padding(length - unit)) length -= unit;
  if (!format.wide) {
    text.append(reinterpret_cast<const char*>(stored.data()), length);
    return;
  }
  for (size_t at = 0; at < length; at += kWideBytes) {
    uint32_t character = 0;
    for (size_t i = 0; i < kWideBytes; ++i) {
      const size_t byte = format.big_endian ? at + i : at + kWideBytes - 1 - i;
      character = character << 8 | std::to_integer<uint32_t>(stored[byte]);
    }
    const bool none = character > 0x10FFFF || (character >= 0xD800 && character < 0xE000);
    append_utf8(none ? 0xFFFD : character, text);
  }
}

std::string npy_header_text(DType dtype, std::span<const int64_t> shape) {
  const NumberFormat format = native_format(dtype);
  PLIMSOLL_CHECK(format.kind != NumberFormat::Kind::kBFloat, "NumPy has no bfloat16");
  char kind = 'f';
  if (format.kind == NumberFormat::Kind::kSigned) kind = 'i';
  if (format.kind == NumberFormat::Kind::kUnsigned) kind = 'u';
  if (format.kind == NumberFormat::Kind::kBool) kind = 'b';
  std::string text = fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': (",
                                 format.bytes == 1 ? '|' : '<', kind, format.bytes);
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{},", i == 0 ? "" : " ", shape[i]);
  }
  if (shape.size() > 1) text.pop_back();
  text += "), }";
  constexpr size_t kAlignment = 64;
  const size_t fixed = kPrefixBytes + 2;
  const size_t whole = (fixed + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.append(whole - fixed - text.size() - 1, ' ');
  text += '\n';
  std::string result(kMagic);
  result += '\x01';
  result += '\0';
  result += static_cast<char>(text.size() & 0xFF);
  result += static_cast<char>(text.size() >> 8);
  return result + text;
}

}  // namespace plimsoll::codec
