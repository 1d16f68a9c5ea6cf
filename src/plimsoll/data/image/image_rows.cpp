#include "data/image/image_rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "codec/image/image.h"
#include "data/image/bilinear_resize.h"
#include "data/rows/class_rows.h"
#include "data/rows/decoded_rows.h"
#include "data/rows/row_cache.h"

namespace plimsoll::data {
namespace {

struct ImageShape {
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;
  int64_t elements() const { return height * width * channels; }
  std::vector<int64_t> row() const { return {height, width, channels}; }
};

class PixelDecoder final : public SampleDecoder {
 public:
  explicit PixelDecoder(const ImageShape& shape)
      : channels_(shape.channels), resize_(shape.height, shape.width, shape.channels) {}

  void decode(const codec::FileReader& file, float* out) override {
    codec::decode_image(
        file, channels_,
        [&](const codec::ImageInfo& info) { resize_.start(info.height, info.width, out); },
        [&](int64_t y, std::span<const uint8_t> line) { resize_.take_row(y, line); });
  }
  Bytes resident_bytes() const override { return resize_.resident_bytes(); }

 private:
  int channels_;
  BilinearResize resize_;
};

ImageShape shape_of(const std::string& path, const std::vector<int64_t>& sample) {
  const bool image = sample.size() == 3 && sample[0] > 0 && sample[1] > 0 &&
                     (sample[2] == 1 || sample[2] == 3 || sample[2] == 4);
  if (image) return {sample[0], sample[1], static_cast<int>(sample[2])};
  throw Error(ErrorKind::kConfig,
              fmt::format("{}: images need a model that takes (height, width, 1, 3 or 4), received "
                          "one that takes {}.",
                          path, to_string(fixed_shape(sample))));
}

MakeDecoder decoder_of(const ImageShape& shape) {
  return [shape] { return std::make_unique<PixelDecoder>(shape); };
}

CacheInput decode_files(const std::shared_ptr<const SampleFiles>& files,
                        const DatasetOptions& options) {
  const ImageShape shape = shape_of(files->path(), options.sample_shape);
  const int threads = decoding_threads(options.threads);
  const ImageFacts facts = read_headers(*files, shape.channels, shape.height, shape.width, threads);
  // Pixels that are not resized are whole numbers.
  return {decoded_rows(files, shape.row(), decoder_of(shape), {facts.working, threads}),
          facts.exact_size ? DType::kUInt8 : DType::kFloat32};
}

}  // namespace

int64_t keep_sound(SampleFolder& folder, const std::vector<bool>& sound) {
  const auto dropped = std::count(sound.begin(), sound.end(), false);
  if (dropped == folder.count()) {
    throw Error(ErrorKind::kData,
                folder.path() + ": expected images, received damaged ones alone.");
  }
  folder.retain(sound);
  return dropped;
}

std::vector<bool> find_sound_images(const SampleFolder& folder, const DatasetOptions& options) {
  const ImageShape shape = shape_of(folder.path(), options.sample_shape);
  if (!options.skip_damaged) return std::vector<bool>(static_cast<size_t>(folder.count()), true);
  return find_sound(folder, decoder_of(shape), shape.elements(), decoding_threads(options.threads));
}

std::unique_ptr<RowSource> decoded_image_rows(const std::shared_ptr<const SampleFiles>& files,
                                              const DatasetOptions& options) {
  return decode_files(files, options).rows;
}

std::unique_ptr<RowSource> make_image_rows(const std::shared_ptr<const SampleFolder>& folder,
                                           const DatasetOptions& options,
                                           std::vector<std::string>& notes) {
  const auto decode = [&] { return decode_files(folder, options); };
  if (options.cache.empty()) return decode().rows;
  const ImageShape shape = shape_of(folder->path(), options.sample_shape);
  return cached_rows({options.cache, options.cache_limit, "bilinear", shape.row()}, folder, decode,
                     notes);
}

ImageSources open_images(const std::string& path, const std::vector<std::string>* classes,
                         const DatasetOptions& options, SampleFolder::Layout layout) {
  shape_of(path, options.sample_shape);  // before a large folder is listed
  auto folder = std::make_shared<SampleFolder>(path, layout, classes);
  check_classes(options, "class folders", folder->filled_classes());
  ImageSources sources;
  sources.skipped = keep_sound(*folder, find_sound_images(*folder, options));
  sources.images = make_image_rows(folder, options, sources.notes);
  sources.folder = folder;
  if (layout == SampleFolder::Layout::kFlat) return sources;
  sources.labels = class_rows(folder, options);
  return sources;
}

}  // namespace plimsoll::data
