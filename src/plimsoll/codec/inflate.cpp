#include "codec/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/format.h"

namespace plimsoll::codec {
namespace {

constexpr size_t kPieceBytes = 64 * 1024;

int window_bits(DeflateForm form) {
  switch (form) {
    case DeflateForm::kGzip:
      return 16 + MAX_WBITS;
    case DeflateForm::kZlib:
      return MAX_WBITS;
    case DeflateForm::kRaw:
      return -MAX_WBITS;
  }
  return MAX_WBITS;
}

// zlib's state, ended with the object.
class Inflater {
 public:
  explicit Inflater(DeflateForm form) {
    if (inflateInit2(&stream_, window_bits(form)) != Z_OK) {
      throw Error(ErrorKind::kBackend, "zlib: expected a decoder, received none (out of memory).");
    }
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_ = {};
};

Bytef* zlib_pointer(const std::byte* bytes) {
  return reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes));
}

// Input of a stream, a piece at a time.
class Input {
 public:
  explicit Input(const ByteReader& source) : source_(source), buffer_(kPieceBytes) {}

  // Puts the next piece before `stream` when it has used up the last one.
  void refill(z_stream& stream) {
    if (stream.avail_in > 0 || offset_ >= source_.size()) return;
    const auto count =
        static_cast<size_t>(std::min<int64_t>(kPieceBytes, source_.size() - offset_));
    source_.read_at(offset_, std::span(buffer_).first(count));
    offset_ += static_cast<int64_t>(count);
    stream.next_in = zlib_pointer(buffer_.data());
    stream.avail_in = static_cast<uInt>(count);
  }
  bool at_end(const z_stream& stream) const {
    return stream.avail_in == 0 && offset_ >= source_.size();
  }

  // Skips zero bytes, as archivers on tape leave behind a gzip member; false at other bytes.
  bool skip_zeros(z_stream& stream) {
    while (!at_end(stream)) {
      refill(stream);
      while (stream.avail_in > 0 && *stream.next_in == 0) {
        ++stream.next_in;
        --stream.avail_in;
      }
      if (stream.avail_in > 0) return false;
    }
    return true;
  }

 private:
  const ByteReader& source_;
  std::vector<std::byte> buffer_;
  int64_t offset_ = 0;
};

[[noreturn]] void refuse(const ByteReader& source, const InflateBounds& bounds,
                         const std::string& what) {
  throw Error(bounds.malformed, source.name() + ": expected compressed data, received " + what +
                                    ". Fetch or write the file again.");
}

}  // namespace

int64_t inflate_stream(const ByteReader& source, DeflateForm form, const InflateBounds& bounds,
                       const ByteConsumer& consumer) {
  Inflater inflater(form);
  z_stream& stream = inflater.stream();
  Input input(source);
  std::vector<std::byte> output(kPieceBytes);
  int64_t total = 0;
  while (true) {
    input.refill(stream);
    stream.next_out = zlib_pointer(output.data());
    stream.avail_out = static_cast<uInt>(output.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    const size_t count = output.size() - stream.avail_out;
    total += static_cast<int64_t>(count);
    if (total > bounds.max_bytes) {
      refuse(source, bounds,
             fmt::format("more than the {} bytes that it may hold", bounds.max_bytes));
    }
    if (count > 0) consumer(std::span(output).first(count));
    if (status == Z_STREAM_END) {
      if (form != DeflateForm::kGzip) {
        if (!input.at_end(stream)) refuse(source, bounds, "bytes after its end");
        return total;
      }
      if (input.skip_zeros(stream)) return total;
      if (inflateReset(&stream) != Z_OK) refuse(source, bounds, "bytes after its end");
      continue;
    }
    if (status == Z_BUF_ERROR || (status == Z_OK && count == 0)) {
      if (input.at_end(stream)) refuse(source, bounds, "an end in the middle of it");
      continue;
    }
    if (status != Z_OK) {
      const char* reason = stream.msg != nullptr ? stream.msg : "something else";
      refuse(source, bounds, std::string("a damaged stream (") + reason + ")");
    }
  }
}

std::shared_ptr<const FileReader> inflate_to_file(const ByteReader& source, DeflateForm form,
                                                  const InflateBounds& bounds,
                                                  const std::string& folder) {
  auto file = std::make_shared<File>(File::unlinked(folder));
  int64_t end = 0;
  inflate_stream(source, form, bounds, [&](std::span<const std::byte> piece) {
    file->write_at(end, piece);
    end += static_cast<int64_t>(piece.size());
  });
  return std::make_shared<const FileReader>(std::move(file), 0, end, source.name());
}

int64_t inflate_block(std::span<const std::byte> source, DeflateForm form,
                      std::span<std::byte> destination) {
  constexpr size_t kMaxBlock = size_t{1} << 31;
  if (source.size() > kMaxBlock || destination.size() > kMaxBlock) return -1;
  Inflater inflater(form);
  z_stream& stream = inflater.stream();
  stream.next_in = zlib_pointer(source.data());
  stream.avail_in = static_cast<uInt>(source.size());
  stream.next_out = zlib_pointer(destination.data());
  stream.avail_out = static_cast<uInt>(destination.size());
  if (inflate(&stream, Z_FINISH) != Z_STREAM_END) return -1;
  return static_cast<int64_t>(stream.total_out);
}

bool looks_like_gzip(const ByteReader& source) {
  std::array<std::byte, 2> start;
  if (source.size() < 18) return false;  // a header and a trailer
  source.read_at(0, start);
  return start[0] == std::byte{0x1F} && start[1] == std::byte{0x8B};
}

uint32_t update_crc32(uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(::crc32_z(crc, zlib_pointer(bytes.data()), bytes.size()));
}

}  // namespace plimsoll::codec
