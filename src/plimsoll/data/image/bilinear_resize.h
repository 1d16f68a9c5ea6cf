#pragma once

// Resizing an image to a fixed size while its rows come in.
//
// Bilinear with centres of pixels at halves and no smoothing: tf.image.resize(method="bilinear"),
// which Keras's image_dataset_from_directory uses. Two rows of the source are held, already resized
// along x; a row of the result is written as soon as both of its neighbours are there.
//
//   in = (out + 0.5) × in_size / out_size − 0.5;  lower = ⌊in⌋, upper = ⌈in⌉, both within the
//   image;  value = top + (bottom − top) × (in_y − ⌊in_y⌋), top and bottom alike along x

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace plimsoll::data {

class BilinearResize {
 public:
  BilinearResize(int64_t height, int64_t width, int64_t channels);

  // The next image has this size and goes to `out`, (height, width, channels).
  void start(int64_t in_height, int64_t in_width, float* out);
  // Rows 0, 1, … of the source, each in_width × channels.
  void take_row(int64_t y, std::span<const uint8_t> row);

  // What it holds, whatever the size of the source.
  Bytes resident_bytes() const;

 private:
  struct Tap {
    int64_t lower = 0;
    int64_t upper = 0;
    float weight = 0;  // of the upper one
  };
  static void make_taps(int64_t in_size, std::vector<Tap>& taps);
  void resize_row(std::span<const uint8_t> row, std::vector<float>& out) const;
  void write_row(const Tap& tap);

  int64_t channels_;
  std::vector<Tap> rows_;      // by row of the result
  std::vector<Tap> columns_;   // by column of it
  std::vector<float> before_;  // row of the source before the newest
  std::vector<float> newest_;
  int64_t next_row_ = 0;  // of the result
  float* out_ = nullptr;
};

}  // namespace plimsoll::data
