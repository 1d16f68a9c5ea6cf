#include "backend/onednn/repack.h"

#include <algorithm>

namespace plimsoll::backend::onednn {
namespace {

constexpr Bytes kLine{64};

Bytes plain_bytes(const PackedLayout& layout) {
  int64_t elements = 1;
  for (int64_t dim : layout.dims) elements *= dim;
  return Bytes(elements * layout.element_bytes);
}

}  // namespace

bool is_slow(const Compiled& compiled) {
  return compiled.implementation.find("ref") != std::string::npos || compiled.multiplies_matrices();
}

Repack::Repack(const dnnl::memory::desc& given, std::span<const std::shared_ptr<Compiled>> works,
               bool given_packed) {
  for (const std::shared_ptr<Compiled>& work : works) {
    if (work->weights == given) {
      of_work_.push_back(-1);
      continue;
    }
    const PackedLayout layout = packed_layout(work->weights);
    const auto found = std::ranges::find(layouts_, layout);
    of_work_.push_back(static_cast<int>(found - layouts_.begin()));
    if (found == layouts_.end()) layouts_.push_back(layout);
  }
  if (layouts_.empty()) return;
  if (given_packed) {
    from_ = packed_layout(given);
    scratch_ += round_up(plain_bytes(*from_), kLine);
  }
  for (const PackedLayout& layout : layouts_) {
    begins_.push_back(scratch_);
    scratch_ += round_up(layout.bytes(), kLine);
  }
}

Repack::Run::Run(const Repack& repack, Bytes begin, int most_parts) : plain_(begin.count()) {
  if (repack.from_) from_.emplace(*repack.from_, most_parts);
  for (size_t i = 0; i < repack.layouts_.size(); ++i) {
    to_.emplace_back(repack.layouts_[i], most_parts);
    packed_.push_back((begin + repack.begins_[i]).count());
  }
  for (int layout : repack.of_work_) {
    offsets_.push_back(layout < 0 ? -1 : packed_[static_cast<size_t>(layout)]);
  }
}

void Repack::Run::prepare(const KernelCall& call) const noexcept {
  if (to_.empty()) return;
  const auto floats = [](std::byte* at) { return reinterpret_cast<float*>(at); };
  float* plain = floats(call.inputs[1].data);
  if (from_) {
    plain = floats(call.scratch + plain_);
    from_->unpack(floats(call.inputs[1].data), plain, false);
  }
  for (size_t i = 0; i < to_.size(); ++i) to_[i].pack(plain, floats(call.scratch + packed_[i]));
}

}  // namespace plimsoll::backend::onednn
