#pragma once

// Weights in other layouts than the one they come in, made at the start of a call.
//
// Some of the vendor's kernels take weights in one layout for one size of the image, and run on its
// reference (or on products that allocate) in any other. Where the shares of a call disagree, or
// where weights are plain because nobody packed them, a call lays them out anew for its shares: a
// pass over the weights, which is little beside a slow kernel.
//
//   scratch  [plain, where they come packed] [each layout]

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/kernel/kernel.h"
#include "backend/onednn/packed_layout.h"

namespace plimsoll::backend::onednn {

// Whether it is one of those that the library falls back to.
bool is_slow(const Compiled& compiled);

class Repack {
 public:
  Repack() = default;
  // Works that want `given` take it as it is.
  Repack(const dnnl::memory::desc& given, std::span<const std::shared_ptr<Compiled>> works,
         bool given_packed);

  Bytes scratch() const { return scratch_; }
  // Between which it moves weights, the plain one apart.
  std::vector<PackedLayout> layouts() const {
    std::vector<PackedLayout> all = layouts_;
    if (from_) all.push_back(*from_);
    return all;
  }

  // It in a kernel, whose scratch has it from `begin` on.
  class Run {
   public:
    Run(const Repack& repack, Bytes begin, int most_parts);
    // Lays the call's second input out.
    void prepare(const KernelCall& call) const noexcept;
    // Where a work finds its weights.
    std::byte* weights(const KernelCall& call, size_t work) const noexcept {
      const int64_t at = offsets_[work];
      return at < 0 ? call.inputs[1].data : call.scratch + at;
    }

   private:
    std::optional<WeightMover> from_;
    int64_t plain_ = 0;
    std::vector<WeightMover> to_;
    std::vector<int64_t> packed_;   // in the call's scratch, by layout
    std::vector<int64_t> offsets_;  // and by work; below zero: as given
  };

 private:
  std::optional<PackedLayout> from_;
  std::vector<PackedLayout> layouts_;
  std::vector<Bytes> begins_;  // of each layout
  std::vector<int> of_work_;   // in layouts_; below zero: as given
  Bytes scratch_;
};

}  // namespace plimsoll::backend::onednn
