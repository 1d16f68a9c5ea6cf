#include "train/best_weights.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "base/spill_folder.h"
#include "formats/checkpoint_file.h"

namespace plimsoll::train {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

int64_t bytes_of(const TensorInfo& info) {
  return tensor_bytes(info.dtype, fixed_shape(info.shape), 1).count();
}

// Tensors one after another in a file.
class PackedTensors final : public TensorSource {
 public:
  PackedTensors(std::shared_ptr<const File> file, std::vector<TensorInfo> infos)
      : file_(std::move(file)), infos_(std::move(infos)) {
    int64_t offset = 0;
    for (const TensorInfo& info : infos_) {
      offsets_.push_back(offset);
      offset += bytes_of(info);
    }
  }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override {
    file_->read_at(offsets_[index] + byte_begin, destination);
  }

 private:
  std::shared_ptr<const File> file_;
  std::vector<TensorInfo> infos_;
  std::vector<int64_t> offsets_;
};

}  // namespace

BestWeights::BestWeights(std::string path, std::string spill_directory, bool writes)
    : path_(std::move(path)), spill_directory_(std::move(spill_directory)), writes_(writes) {}

void BestWeights::save(TensorSource& state, int64_t epoch) {
  const MemoryTag tag(MemoryPart::kFiles);
  if (!writes_path()) {
    save_unlinked(state);
  } else {
    formats::save_checkpoint(path_, layers::Config::Object{{"epoch", epoch}}, "", state);
  }
  epoch_ = epoch;
}

void BestWeights::save_unlinked(TensorSource& state) {
  if (file_ == nullptr) {
    file_ = std::make_shared<File>(File::unlinked(choose_spill_folder(spill_directory_)));
  }
  infos_.assign(state.tensors().begin(), state.tensors().end());
  std::vector<std::byte> piece(kPieceBytes);
  int64_t offset = 0;
  for (size_t i = 0; i < infos_.size(); ++i) {
    const int64_t bytes = bytes_of(infos_[i]);
    for (int64_t done = 0; done < bytes; done += static_cast<int64_t>(kPieceBytes)) {
      const auto now = static_cast<size_t>(std::min<int64_t>(kPieceBytes, bytes - done));
      const std::span<std::byte> part = std::span(piece).first(now);
      state.read(i, done, part);
      file_->write_at(offset + done, part);
    }
    offset += bytes;
  }
}

std::unique_ptr<TensorSource> BestWeights::load(int64_t epoch) const {
  const MemoryTag tag(MemoryPart::kFiles);
  if (!writes_path() && file_ != nullptr && epoch_ == epoch) {
    return std::make_unique<PackedTensors>(file_, infos_);
  }
  if (path_.empty()) return nullptr;
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return nullptr;
  try {
    formats::CheckpointFile saved = formats::load_checkpoint(path_);
    const layers::Config* of = saved.description.find("epoch");
    if (of == nullptr || of->as_int() != epoch) return nullptr;
    return std::move(saved.tensors);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    return nullptr;
  }
}

}  // namespace plimsoll::train
