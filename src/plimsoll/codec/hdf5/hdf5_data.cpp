#include "codec/hdf5/hdf5_data.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/format.h"
#include "codec/hdf5/hdf5_chunks.h"
#include "codec/hdf5/hdf5_strings.h"

namespace plimsoll::codec {
namespace {

constexpr int64_t kStringBytes = 64 << 10;  // of elements that are read at a time
// Deflate makes no more of a byte; strings that were never written are few.
constexpr uint64_t kMostInflated = 1032;
constexpr uint64_t kMostUnwritten = 1 << 20;

std::string describe(const Hdf5Type& type) {
  switch (type.type_class) {
    case Hdf5Type::Class::kNumber:
      return to_string(type.number);
    case Hdf5Type::Class::kFixedString:
    case Hdf5Type::Class::kVariableString:
      return "texts";
    case Hdf5Type::Class::kOther:
      break;
  }
  return type.described;
}

class Data final : public Hdf5Dataset {
 public:
  Data(std::shared_ptr<const Hdf5Source> source, const Hdf5Object& object, const std::string& path,
       const std::string& folder)
      : source_(std::move(source)) {
    name_ = source_->name() + "/" + path;
    if (object.find(kHdf5ExternalFiles) != nullptr) {
      source_->refuse_unsupported("data in another file");
    }
    const auto need = [&](int type, const char* what) {
      return need_hdf5_message(*source_, object, type, what);
    };
    info_.type = parse_hdf5_type(*source_, need(kHdf5Datatype, "type"));
    info_.shape = parse_hdf5_shape(*source_, need(kHdf5Dataspace, "shape"));
    info_.element_count = count_hdf5_elements(*source_, info_.shape);
    fill_ = read_hdf5_fill_value(*source_, object);
    if (!fill_.empty() && fill_.size() != static_cast<size_t>(info_.type.bytes)) {
      source_->refuse("a fill value of another size than the elements");
    }
    layout_ = parse_hdf5_layout(*source_, need(kHdf5Layout, "layout"), info_.shape.size());
    if (info_.element_count > 0 && info_.type.bytes > 0) open_layout(object, folder);
  }

  int64_t resident_bytes() const override {
    return std::ssize(layout_.compact) + (chunks_ ? chunks_->resident_bytes() : 0);
  }

  bool decodes() const override { return chunks_ && chunks_->decodes(); }

  int64_t table_bytes() const override { return chunks_ ? chunks_->table_bytes() : 0; }

  void read_raw(int64_t begin, int64_t count, std::span<std::byte> destination) override {
    const bool numbers = info_.type.type_class == Hdf5Type::Class::kNumber;
    if (!numbers && info_.type.members.empty()) refuse_type("numbers");
    read_elements(begin, count, destination);
  }

  std::vector<std::string> read_strings(int64_t max_bytes) override {
    if (!info_.type.is_string()) refuse_type("texts");
    if (info_.element_count > max_bytes / info_.type.bytes) {
      throw Error(
          ErrorKind::kModel,
          fmt::format("{}: expected at most {} bytes of texts, received more.", name_, max_bytes));
    }
    std::vector<std::byte> raw(static_cast<size_t>(info_.element_count * info_.type.bytes));
    read_elements(0, info_.element_count, raw);
    return decode_hdf5_strings(*source_, info_.type, raw, info_.element_count, max_bytes);
  }

  int64_t visit_strings(const std::function<void(std::string_view)>& visit) override {
    if (!info_.type.is_string()) refuse_type("texts");
    const int64_t count = info_.element_count;
    const uint64_t most = kMostInflated * source_->bytes_after(0) + kMostUnwritten;
    if (static_cast<uint64_t>(count) > most / static_cast<uint64_t>(info_.type.bytes)) {
      source_->refuse(fmt::format("{} texts, which it has no room for", count));
    }
    const int64_t piece = std::max<int64_t>(kStringBytes / info_.type.bytes, 1);
    std::vector<std::byte> raw(static_cast<size_t>(std::min(piece, count) * info_.type.bytes));
    Hdf5Strings strings(*source_, info_.type);
    for (int64_t first = 0; first < count; first += piece) {
      const int64_t now = std::min(piece, count - first);
      const auto elements = std::span(raw).first(static_cast<size_t>(now * info_.type.bytes));
      read_elements(first, now, elements);
      ByteCursor cursor(elements, source_->fail());
      for (int64_t i = 0; i < now; ++i) visit(strings.next(cursor));
    }
    return std::ssize(raw) + strings.peak_bytes();
  }

 private:
  [[noreturn]] void refuse_type(const std::string& expected) const {
    throw Error(ErrorKind::kModel,
                name_ + ": expected " + expected + ", received " + describe(info_.type) + ".");
  }

  void open_layout(const Hdf5Object& object, const std::string& folder) {
    int64_t product = 0;
    if (__builtin_mul_overflow(info_.element_count, info_.type.bytes, &product)) {
      source_->refuse("an array of impossible size");
    }
    const auto bytes = static_cast<uint64_t>(product);
    switch (layout_.layout_class) {
      case Hdf5Layout::Class::kCompact:
        if (layout_.compact.size() < bytes) source_->refuse("an array that is cut short");
        break;
      case Hdf5Layout::Class::kContiguous:
        if (source_->is_undefined(layout_.address)) break;
        if (layout_.bytes != 0 && layout_.bytes < bytes) {
          source_->refuse("an array \"" + name_ + "\" that is cut short");
        }
        source_->check_range(layout_.address, bytes);
        break;
      case Hdf5Layout::Class::kChunked: {
        std::vector<Hdf5Filter> filters;
        if (const Hdf5Message* message = object.find(kHdf5Filters)) {
          if (message->shared) source_->refuse_unsupported("shared filters");
          filters = parse_hdf5_filters(*source_, message->body);
        }
        chunks_.emplace(source_, layout_, info_.shape, info_.type.bytes, std::move(filters),
                        folder);
        break;
      }
    }
  }

  void fill(std::span<std::byte> destination) const {
    if (fill_.empty()) {
      std::fill(destination.begin(), destination.end(), std::byte{0});
      return;
    }
    for (size_t i = 0; i < destination.size(); ++i) destination[i] = fill_[i % fill_.size()];
  }

  void read_elements(int64_t begin, int64_t count, std::span<std::byte> destination) {
    const int64_t element = info_.type.bytes;
    PLIMSOLL_CHECK(begin >= 0 && count >= 0 && begin <= info_.element_count &&
                       count <= info_.element_count - begin,
                   "elements outside of " + name_);
    PLIMSOLL_CHECK(destination.size() == static_cast<size_t>(count * element),
                   "a destination of another size than the elements");
    if (count == 0) return;
    if (chunks_) {
      fill(destination);
      chunks_->read(begin, count, destination);
    } else if (layout_.layout_class == Hdf5Layout::Class::kCompact) {
      const auto from = layout_.compact.begin() + begin * element;
      std::copy(from, from + count * element, destination.begin());
    } else if (source_->is_undefined(layout_.address)) {
      fill(destination);
    } else {
      source_->read_into(layout_.address + static_cast<uint64_t>(begin * element), destination);
    }
  }

  std::shared_ptr<const Hdf5Source> source_;
  Hdf5Layout layout_;
  std::vector<std::byte> fill_;
  std::optional<Hdf5Chunks> chunks_;
};

}  // namespace

std::unique_ptr<Hdf5Dataset> open_hdf5_data(std::shared_ptr<const Hdf5Source> source,
                                            const Hdf5Object& object, const std::string& path,
                                            const std::string& folder) {
  return std::make_unique<Data>(std::move(source), object, path, folder);
}

void Hdf5Dataset::read_as(DType dtype, int64_t begin, int64_t count, void* destination) {
  const auto refuse = [&](const std::string& received) {
    throw Error(ErrorKind::kModel, name_ + ": expected numbers that " +
                                       std::string(to_string(dtype)) + " can hold, received " +
                                       received + ".");
  };
  if (info_.type.type_class != Hdf5Type::Class::kNumber) refuse(describe(info_.type));
  const NumberFormat& format = info_.type.number;
  if (!can_convert(format, dtype)) refuse(to_string(format));
  auto* out = static_cast<std::byte*>(destination);
  const auto out_bytes = element_bytes(dtype).count();
  if (native_dtype(format) == dtype && dtype != DType::kBool) {
    read_raw(begin, count, {out, static_cast<size_t>(count * out_bytes)});
    return;
  }
  constexpr int64_t kPieceBytes = 64 * 1024;
  const int64_t piece = std::max<int64_t>(1, kPieceBytes / format.bytes);
  std::vector<std::byte> raw;
  for (int64_t done = 0; done < count; done += piece) {
    const int64_t now = std::min(piece, count - done);
    raw.resize(static_cast<size_t>(now * format.bytes));
    read_raw(begin + done, now, raw);
    const int64_t bad = convert_numbers(format, raw.data(), dtype, out + done * out_bytes, now);
    if (bad >= 0) refuse(number_text(format, raw.data() + bad * format.bytes));
  }
}

}  // namespace plimsoll::codec
