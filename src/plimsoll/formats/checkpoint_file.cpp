#include "formats/checkpoint_file.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/shape.h"
#include "codec/npy.h"
#include "codec/zip_reader.h"
#include "codec/zip_writer.h"
#include "formats/json_text.h"

namespace plimsoll::formats {
namespace {

constexpr int64_t kVersion = 1;
constexpr std::string_view kDescription = "checkpoint.json";
constexpr std::string_view kPlan = "plan.txt";
constexpr int64_t kPieceBytes = 256 << 10;
constexpr int64_t kMaxPlanBytes = 256 << 20;

std::string member_name(size_t index) { return fmt::format("state/{}.npy", index); }

void copy_tensor(TensorSource& state, size_t index, codec::ByteSink& sink,
                 std::vector<std::byte>& piece) {
  const TensorInfo& info = state.tensors()[index];
  const int64_t bytes = tensor_bytes(info.dtype, fixed_shape(info.shape), 1).count();
  const std::string header = codec::npy_header_text(info.dtype, info.shape);
  sink.write(std::as_bytes(std::span(header)));
  for (int64_t done = 0; done < bytes;) {
    const auto span = std::span(piece).first(
        static_cast<size_t>(std::min<int64_t>(bytes - done, static_cast<int64_t>(piece.size()))));
    state.read(index, done, span);
    sink.write(span);
    done += static_cast<int64_t>(span.size());
  }
}

// Tensors in place, after their headers.
class CheckpointTensors final : public TensorSource {
 public:
  void add(TensorInfo info, std::shared_ptr<const codec::FileReader> member, int64_t offset) {
    infos_.push_back(std::move(info));
    members_.push_back({std::move(member), offset});
  }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override {
    members_[index].file->read_at(members_[index].offset + byte_begin, destination);
  }

 private:
  struct Member {
    std::shared_ptr<const codec::FileReader> file;
    int64_t offset = 0;
  };
  std::vector<TensorInfo> infos_;
  std::vector<Member> members_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kData, path + ": expected a checkpoint, received " + what + ".");
}

CheckpointFile read(const codec::ZipReader& archive, const std::string& path) {
  const auto find = [&](std::string_view name) -> const codec::ZipEntry& {
    const codec::ZipEntry* entry = archive.find(name);
    if (entry == nullptr) refuse(path, "an archive without " + std::string(name));
    archive.verify(*entry);
    return *entry;
  };
  CheckpointFile file;
  const layers::Config head =
      parse_json(archive.read_text(find(kDescription), kMaxJsonBytes), path);
  const int64_t version = head.at("version").as_int();
  if (version != kVersion) {
    refuse(path, fmt::format("one of version {} where this program knows {}", version, kVersion));
  }
  file.description = head.at("description");
  file.plan = archive.read_text(find(kPlan), kMaxPlanBytes);
  auto tensors = std::make_unique<CheckpointTensors>();
  const layers::Config::Array& names = head.at("tensors").as_array();
  for (size_t i = 0; i < names.size(); ++i) {
    std::shared_ptr<const codec::FileReader> member = archive.open(find(member_name(i)), "");
    codec::NpyHeader header = codec::read_npy_header(*member);
    const std::optional<DType> dtype = codec::native_dtype(header.format);
    if (!dtype || header.fortran_order) refuse(path, "a tensor in a foreign order of bytes");
    tensors->add({names[i].as_string(), *dtype, std::move(header.shape)}, std::move(member),
                 header.data_offset);
  }
  file.tensors = std::move(tensors);
  return file;
}

}  // namespace

void save_checkpoint(const std::string& path, const layers::Config& description,
                     std::string_view plan, TensorSource& state) {
  AtomicFile file(path);
  codec::ZipWriter archive(file.file());
  layers::Config::Array names;
  for (const TensorInfo& info : state.tensors()) names.emplace_back(info.name);
  const layers::Config head = layers::Config::Object{
      {"version", kVersion}, {"description", description}, {"tensors", std::move(names)}};
  archive.add(kDescription, print_json(head, 1));
  archive.add(kPlan, plan);
  std::vector<std::byte> piece(kPieceBytes);
  for (size_t i = 0; i < state.tensors().size(); ++i) {
    copy_tensor(state, i, archive.begin(member_name(i)), piece);
  }
  archive.finish();
  file.commit();
}

CheckpointFile load_checkpoint(const std::string& path) {
  try {
    const codec::ZipReader archive(codec::open_reader(path), ErrorKind::kData);
    return read(archive, path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kModel) throw;
    throw Error(ErrorKind::kData, path + ": damaged: " + error.what());
  }
}

}  // namespace plimsoll::formats
