#include "data/image/mask_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "codec/image/image.h"
#include "data/image/image_rows.h"
#include "data/rows/decoded_rows.h"
#include "data/rows/row_cache.h"

namespace plimsoll::data {
namespace {

constexpr std::string_view kSuffix = "_mask";

struct MaskShape {
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 1;               // that the model tells apart, at least two
  int64_t channels = 1;              // 1: numbers; else one for each class
  std::optional<int64_t> ignored{};  // a number beside the classes
  int64_t elements() const { return height * width * channels; }
};

MaskShape shape_of(const Port& output) {
  const std::vector<int64_t>& shape = output.sample_shape;
  if (shape.size() != 3 || *std::min_element(shape.begin(), shape.end()) < 1) {
    throw Error(ErrorKind::kConfig,
                fmt::format("{}: a folder of masks needs a model that gives (height, width, "
                            "classes), received one that gives {}.",
                            output.path, to_string(fixed_shape(shape))));
  }
  return {shape[0], shape[1], std::max<int64_t>(shape[2], 2), output.class_numbers ? 1 : shape[2],
          output.ignored_class};
}

class MaskDecoder final : public SampleDecoder {
 public:
  explicit MaskDecoder(const MaskShape& shape)
      : shape_(shape),
        rows_(static_cast<size_t>(shape.height)),
        columns_(static_cast<size_t>(shape.width)) {}

  void decode(const codec::FileReader& file, float* out) override {
    lossy_ = !codec::lossy_form(file).empty();
    size_t next = 0;
    codec::decode_mask(
        file,
        [&](const codec::ImageInfo& info) {
          find_nearest(info.height, rows_);
          find_nearest(info.width, columns_);
        },
        [&](int64_t y, std::span<const uint8_t> line) {
          for (; next < rows_.size() && rows_[next] == y; ++next) {
            put_row(file.name(), y, line,
                    out + static_cast<int64_t>(next) * shape_.width * shape_.channels);
          }
        });
  }
  Bytes resident_bytes() const override {
    return Bytes(static_cast<int64_t>((rows_.size() + columns_.size()) * sizeof(int64_t)));
  }

 private:
  // In float32, as TensorFlow computes them.
  static void find_nearest(int64_t in_size, std::vector<int64_t>& nearest) {
    const float scale = static_cast<float>(in_size) / static_cast<float>(nearest.size());
    for (size_t i = 0; i < nearest.size(); ++i) {
      const float in = std::floor((static_cast<float>(i) + 0.5f) * scale);
      nearest[i] = std::min(static_cast<int64_t>(in), in_size - 1);
    }
  }

  void put_row(const std::string& file, int64_t y, std::span<const uint8_t> line,
               float* out) const {
    for (const int64_t x : columns_) {
      const int64_t number = class_of(file, x, y, line[static_cast<size_t>(x)]);
      if (shape_.channels == 1) {
        *out++ = static_cast<float>(number);
        continue;
      }
      for (int64_t k = 0; k < shape_.channels; ++k) *out++ = k == number ? 1.0f : 0.0f;
    }
  }

  int64_t class_of(const std::string& file, int64_t x, int64_t y, uint8_t value) const {
    if (shape_.ignored == value) return value;
    if (shape_.classes == 2) {
      if (lossy_) return value > 127 ? 1 : 0;
      if (value == 255) return 1;
    }
    if (value < shape_.classes) return value;
    const std::string most = std::to_string(shape_.classes - 1);
    throw Error(
        ErrorKind::kData,
        fmt::format(
            "{}: expected classes from 0 to {}{} (the model tells {} apart){}, received {} at "
            "column {}, row {}.",
            file, most, shape_.classes == 2 ? ", or 0 and 255," : "", shape_.classes,
            shape_.ignored ? fmt::format(" or {}", *shape_.ignored) : "", value, x, y));
  }

  MaskShape shape_;
  bool lossy_ = false;
  std::vector<int64_t> rows_;     // of the file, by row of the result
  std::vector<int64_t> columns_;  // likewise
};

// The indices of images, by their names.
class NameIndex {
 public:
  explicit NameIndex(const SampleFolder& folder) : folder_(folder) {
    order_.reserve(static_cast<size_t>(folder.count()));
    for (int64_t i = 0; i < folder.count(); ++i) order_.push_back(i);
    std::ranges::sort(order_, {}, [&](int64_t i) { return folder_.stem(i); });
  }
  // -1: there is none.
  int64_t find(std::string_view stem) const {
    const auto found =
        std::ranges::lower_bound(order_, stem, {}, [&](int64_t i) { return folder_.stem(i); });
    return found != order_.end() && folder_.stem(*found) == stem ? *found : -1;
  }

 private:
  const SampleFolder& folder_;
  std::vector<int64_t> order_;
};

[[noreturn]] void refuse_single(const SampleFolder& of, int64_t first, int64_t count,
                                const std::string& expected) {
  throw Error(ErrorKind::kData,
              fmt::format("{}: expected {}, received none ({} of {} files have none). Put the "
                          "missing ones there, or move these away.",
                          of.file(first), expected, count, of.count()));
}

// Brings the masks into the order of the images.
void match(const SampleFolder& images, SampleFolder& masks) {
  const NameIndex index(masks);
  std::vector<int64_t> order;
  std::vector<bool> taken(static_cast<size_t>(masks.count()), false);
  int64_t missing = 0;
  int64_t first = 0;
  for (int64_t i = 0; i < images.count(); ++i) {
    const std::string stem(images.stem(i));
    int64_t mask = index.find(stem);
    if (mask < 0) mask = index.find(stem + std::string(kSuffix));
    if (mask < 0) {
      if (missing++ == 0) first = i;
      continue;
    }
    taken[static_cast<size_t>(mask)] = true;
    order.push_back(mask);
  }
  if (missing > 0) {
    const std::string name = masks.path() + "/" + std::string(images.stem(first));
    refuse_single(images, first, missing, "its mask " + name + ".png or " + name + "_mask.png");
  }
  const auto single = std::ranges::find(taken, false);
  if (single != taken.end()) {
    const int64_t mask = single - taken.begin();
    std::string_view stem = masks.stem(mask);
    if (stem.ends_with(kSuffix)) stem.remove_suffix(kSuffix.size());
    refuse_single(masks, mask, std::ranges::count(taken, false),
                  "an image " + images.path() + "/" + std::string(stem) + ".jpg or .png");
  }
  masks.reorder(order);
}

// An output's masks.
struct Masks {
  MaskShape shape;
  std::shared_ptr<SampleFolder> folder;
  MakeDecoder make;
};

// Of numbers that compression has changed none can be told from another class. It reads the first
// bytes of each file, since a name may be wrong.
void refuse_lossy(const SampleFolder& masks, int64_t classes) {
  for (int64_t i = 0; i < masks.count(); ++i) {
    const std::string form(codec::lossy_form(*codec::open_reader(masks.file(i))));
    if (form.empty()) continue;
    throw Error(ErrorKind::kData,
                fmt::format("{}: expected a mask whose numbers are kept exactly (the model tells "
                            "{} classes apart), received a {}, whose compression changes them. "
                            "Save masks as PNG from what they were made of.",
                            masks.file(i), classes, form));
  }
}

void leave_out_damaged(const Masks& masks, const DatasetOptions& options,
                       std::vector<bool>& sound) {
  const std::vector<bool> own = find_sound(*masks.folder, masks.make, masks.shape.elements(),
                                           decoding_threads(options.threads));
  for (size_t i = 0; i < own.size(); ++i) sound[i] = sound[i] && own[i];
}

std::shared_ptr<RowSource> make_rows(const Masks& masks, const DatasetOptions& options,
                                     std::vector<std::string>& notes) {
  const MaskShape& shape = masks.shape;
  const int threads = decoding_threads(options.threads);
  const std::vector<int64_t> row_shape = {shape.height, shape.width, shape.channels};
  const auto decode = [&]() -> CacheInput {
    const ImageFacts facts = read_headers(*masks.folder, 3, shape.height, shape.width, threads);
    return {decoded_rows(masks.folder, row_shape, masks.make, {facts.working, threads}),
            DType::kUInt8};
  };
  if (options.cache.empty()) return decode().rows;
  std::string form = fmt::format("mask of {}", shape.classes);
  if (shape.ignored) form += fmt::format(" but {}", *shape.ignored);
  return cached_rows({options.cache, options.cache_limit, form, row_shape}, masks.folder, decode,
                     notes);
}

}  // namespace

MaskedImages open_masked_images(const std::vector<Port>& outputs,
                                const std::shared_ptr<SampleFolder>& images,
                                const DatasetOptions& options) {
  std::vector<Masks> all;
  for (const Port& output : outputs) {
    const MaskShape shape = shape_of(output);
    Masks masks{shape, std::make_shared<SampleFolder>(output.path, SampleFolder::Layout::kFlat),
                [shape] { return std::make_unique<MaskDecoder>(shape); }};
    match(*images, *masks.folder);
    if (shape.classes > 2) refuse_lossy(*masks.folder, shape.classes);
    all.push_back(std::move(masks));
  }
  std::vector<bool> sound = find_sound_images(*images, options);
  if (options.skip_damaged) {
    for (const Masks& masks : all) leave_out_damaged(masks, options, sound);
  }
  MaskedImages opened;
  opened.skipped = keep_sound(*images, sound);
  for (const Masks& masks : all) masks.folder->retain(sound);
  opened.images = make_image_rows(images, options, opened.notes);
  for (const Masks& masks : all) opened.masks.push_back(make_rows(masks, options, opened.notes));
  return opened;
}

}  // namespace plimsoll::data
