#pragma once

// Event files as TensorBoard reads them: scalars, texts, images and histograms.
//
//   record:  length, checksums and data as in a TFRecord file (codec/tf_record.h)
//   data:    Event { wall_time = 1, step = 2, file_version = 3 | summary = 5 }
//            Summary { value = 1 { tag = 1, metadata = 9, simple_value = 2 | tensor = 8 | image = 4
//            {
//                      height = 1, width = 2, channels = 3, file = 4 } } }
//
// Every event is handed to the system whole, so that a killed run leaves a file that can be read to
// its last whole event. A resumed run writes a file of its own into the same folder, which
// TensorBoard joins by step. Source: tensorflow/core/util/event.proto,
// tensorflow/core/framework/summary.proto.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "codec/png_writer.h"
#include "report/histogram.h"

namespace plimsoll::report {

class EventFile {
 public:
  // Creates "events.out.tfevents.<seconds>.plimsoll" in `folder`, which is made where it is
  // missing; a number is added where the name is taken. Throws kIo.
  explicit EventFile(const std::string& folder);

  void scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  // Shown as Markdown.
  void text(int64_t step, std::string_view tag, std::string_view markdown);
  // A tensor (buckets, 3) of left edge, right edge and count, for the plugin "histograms".
  void histogram(int64_t step, std::string_view tag, const Histogram& histogram);
  void image(int64_t step, std::string_view tag, const codec::DrawnPicture& picture);

 private:
  void write(std::span<const std::byte> event);

  File file_;
  int64_t end_ = 0;
};

}  // namespace plimsoll::report
