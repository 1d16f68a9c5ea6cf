#include "report/event_file.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/format.h"
#include "codec/protobuf_wire.h"
#include "codec/tf_record.h"

namespace plimsoll::report {
namespace {

using Message = codec::ProtobufBuilder;

double wall_seconds() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

Message event(int64_t step) {
  Message message;
  message.fixed64(1, wall_seconds());
  if (step > 0) message.varint(2, static_cast<uint64_t>(step));
  return message;
}

// A value as TensorBoard's newer readers want it: a tensor that names the plugin that shows it.
Message tensor_event(int64_t step, std::string_view tag, const Message& tensor,
                     std::string_view plugin) {
  Message plugin_data;
  plugin_data.text(1, plugin);
  Message metadata;
  metadata.message(1, plugin_data);
  Message value;
  value.text(1, tag).message(8, tensor).message(9, metadata);
  Message summary;
  summary.message(1, value);
  Message whole = event(step);
  whole.message(5, summary);
  return whole;
}

std::string free_name(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw_io(folder, "create the folder", failed.value());
  const std::string name = fmt::format("{}/events.out.tfevents.{}.plimsoll", folder,
                                       static_cast<int64_t>(wall_seconds()));
  for (int i = 0;; ++i) {
    const std::string path = i == 0 ? name : fmt::format("{}.{}", name, i);
    if (!std::filesystem::exists(path, failed)) return path;
  }
}

}  // namespace

EventFile::EventFile(const std::string& folder) : file_(File::create(free_name(folder))) {
  Message first = event(0);
  first.text(3, "brain.Event:2");
  write(first.bytes());
}

void EventFile::write(std::span<const std::byte> event) {
  const std::vector<std::byte> record = codec::tf_record_frame(event);
  file_.write_at(end_, record);
  end_ += static_cast<int64_t>(record.size());
}

void EventFile::scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  Message summary;
  for (const auto& [tag, value] : values) {
    Message one;
    one.text(1, tag).fixed32(2, static_cast<float>(value));
    summary.message(1, one);
  }
  Message whole = event(step);
  whole.message(5, summary);
  write(whole.bytes());
}

void EventFile::image(int64_t step, std::string_view tag, const codec::DrawnPicture& picture) {
  Message image;
  image.varint(1, static_cast<uint64_t>(picture.height))
      .varint(2, static_cast<uint64_t>(picture.width))
      .varint(3, 3)
      .text(4, codec::write_png(picture));
  Message value;
  value.text(1, tag).message(4, image);
  Message summary;
  summary.message(1, value);
  Message whole = event(step);
  whole.message(5, summary);
  write(whole.bytes());
}

void EventFile::histogram(int64_t step, std::string_view tag, const Histogram& histogram) {
  constexpr uint64_t kDouble = 2;  // DT_DOUBLE
  std::array<double, 3 * Histogram::kBuckets> rows;
  for (int i = 0; i < Histogram::kBuckets; ++i) {
    const auto at = static_cast<size_t>(i);
    rows[3 * at] = histogram.edge(i);
    rows[3 * at + 1] = histogram.edge(i + 1);
    rows[3 * at + 2] = static_cast<double>(histogram.counts[at]);
  }
  Message shape;
  for (const int extent : {Histogram::kBuckets, 3}) {
    Message dimension;
    dimension.varint(1, static_cast<uint64_t>(extent));
    shape.message(2, dimension);
  }
  Message tensor;  // 4: its bytes, little-endian
  tensor.varint(1, kDouble).message(2, shape).bytes(4, std::as_bytes(std::span(rows)));
  write(tensor_event(step, tag, tensor, "histograms").bytes());
}

void EventFile::text(int64_t step, std::string_view tag, std::string_view markdown) {
  constexpr uint64_t kString = 7;  // DT_STRING
  Message dimension;
  dimension.varint(1, 1);
  Message shape;
  shape.message(2, dimension);
  Message tensor;
  tensor.varint(1, kString).message(2, shape).text(8, markdown);
  write(tensor_event(step, tag, tensor, "text").bytes());
}

}  // namespace plimsoll::report
