#include "run/state_store.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/spill_folder.h"
#include "formats/model_file.h"

namespace plimsoll::run {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;

int64_t bytes_of(const TensorInfo& info) {
  return tensor_bytes(info.dtype, fixed_shape(info.shape), 1).count();
}

class FileState final : public TensorSource {
 public:
  FileState(TensorSource& state, bool with_metrics, const std::string& folder)
      : file_(File::unlinked(choose_spill_folder(folder))) {
    std::vector<std::byte> piece(kPieceBytes);
    for (size_t i = 0; i < state.tensors().size(); ++i) {
      const TensorInfo& info = state.tensors()[i];
      if (!with_metrics && info.name.starts_with("metrics/")) continue;
      infos_.push_back(info);
      offsets_.push_back(end_);
      for (int64_t begin = 0, left = bytes_of(info); left > 0;) {
        const auto part =
            std::span(piece).first(static_cast<size_t>(std::min<int64_t>(left, kPieceBytes)));
        state.read(i, begin, part);
        file_.write_at(end_, part);
        begin += static_cast<int64_t>(part.size());
        left -= static_cast<int64_t>(part.size());
        end_ += static_cast<int64_t>(part.size());
      }
    }
  }

  std::span<const TensorInfo> tensors() const override { return infos_; }
  void read(size_t index, int64_t byte_begin, std::span<std::byte> destination) override {
    file_.read_at(offsets_[index] + byte_begin, destination);
  }
  void write(size_t index, std::span<const std::byte> bytes) {
    file_.write_at(offsets_[index], bytes);
  }

 private:
  File file_;
  std::vector<TensorInfo> infos_;
  std::vector<int64_t> offsets_;
  int64_t end_ = 0;
};

}  // namespace

StateStore::StateStore() = default;
StateStore::StateStore(StateStore&&) noexcept = default;
StateStore& StateStore::operator=(StateStore&&) noexcept = default;
StateStore::~StateStore() = default;

void StateStore::capture(TensorSource& state, bool with_metrics, const std::string& folder) {
  source_ = std::make_unique<FileState>(state, with_metrics, folder);
}

void StateStore::drop_optimizer() {
  if (source_ != nullptr) source_ = formats::without_optimizer(std::move(source_));
}

void StateStore::write(const std::string& name, std::span<const std::byte> bytes) {
  auto copy = std::make_unique<FileState>(*source_, false, "");
  const int64_t index = find_tensor(*copy, name);
  PLIMSOLL_CHECK(index >= 0, name + ": not in the state");
  copy->write(static_cast<size_t>(index), bytes);
  source_ = std::move(copy);
}

int64_t find_tensor(const TensorSource& source, std::string_view name) {
  const auto tensors = source.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorInfo& info) { return info.name == name; });
  return found == tensors.end() ? -1 : found - tensors.begin();
}

}  // namespace plimsoll::run
