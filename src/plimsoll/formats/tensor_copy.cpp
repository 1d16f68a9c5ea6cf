#include "formats/tensor_copy.h"

#include <algorithm>

namespace plimsoll::formats {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;

}  // namespace

void copy_tensors(TensorSource& state, const std::vector<size_t>& tensors,
                  codec::Hdf5Writer& writer) {
  std::vector<std::byte> piece(kPieceBytes);
  for (const size_t index : tensors) {
    const TensorInfo& info = state.tensors()[index];
    int64_t left = element_bytes(info.dtype).count();
    for (const int64_t extent : info.shape) left *= extent;
    for (int64_t begin = 0; left > 0;) {
      const std::span<std::byte> part(piece.data(),
                                      static_cast<size_t>(std::min<int64_t>(left, kPieceBytes)));
      state.read(index, begin, part);
      writer.write(part);
      begin += static_cast<int64_t>(part.size());
      left -= static_cast<int64_t>(part.size());
    }
  }
}

}  // namespace plimsoll::formats
