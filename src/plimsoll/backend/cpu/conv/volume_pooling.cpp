#include "backend/cpu/conv/volume_pooling.h"

#include <array>
#include <cstring>

#include "ops/image/pool.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/conv/volume_pooling_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

struct Pooling {
  VolumePooling of;
  int64_t volumes = 1;
  int parts = 1;
};

// `x`: the type of what is pooled.
Pooling read_pooling(const NodeFacts& facts, const graph::ValueType& x, int most_parts) {
  const Shape& s = x.shape;
  Pooling p;
  p.of.windows =
      ops::pool_windows(facts.attributes, std::array{s[1].count, s[2].count, s[3].count});
  p.of.channels = s[4].count;
  p.volumes = facts.samples() * s[0].count;
  p.parts = parts_for(p.volumes * s.elements_per_sample() / s[0].count * 4, most_parts);
  return p;
}

CpuKernel make_max_pool(const NodeFacts& facts, const CpuOptions& options) {
  const Pooling p = read_pooling(facts, facts.inputs[0], options.parts);
  const auto loop = PLIMSOLL_PICK(options.isa, max_volume_rows);
  const int64_t rows = p.volumes * p.of.windows.slabs().output * p.of.windows.rows().output;
  return kernel_of([p, loop, rows](const KernelCall& call) {
    for_each_range(rows, 1, p.parts, [&](int64_t begin, int64_t end) {
      loop(p.of, input_floats(call, 0), output_floats(call, 0), output_as<uint8_t>(call, 1), begin,
           end);
    });
  });
}

// Where windows share no slabs a piece is an output slab and the input's slabs up to the next
// one's, otherwise a volume.
CpuKernel make_max_pool_grad(const NodeFacts& facts, const CpuOptions& options) {
  const Pooling p = read_pooling(facts, facts.outputs[0], options.parts);
  const auto loop = PLIMSOLL_PICK(options.isa, add_volume_gradients);
  return kernel_of([p, loop](const KernelCall& call) {
    const ops::Window& slabs = p.of.windows.slabs();
    const int64_t pieces = slabs.size <= slabs.stride ? slabs.output : 1;
    const int64_t slab_elements = p.of.windows.inputs() / slabs.input * p.of.channels;
    const int64_t outputs = p.of.windows.outputs() / pieces;
    // Where a piece's slabs begin.
    const auto begin_of = [&](int64_t piece) {
      if (piece == 0) return int64_t{0};
      return piece == pieces ? slabs.input
                             : std::clamp<int64_t>(slabs.position(piece, 0), 0, slabs.input);
    };
    float* dx = output_floats(call, 0);
    for_each_range(p.volumes * pieces, 1, p.parts, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t first = begin_of(at % pieces);
        const int64_t count = begin_of(at % pieces + 1) - first;
        std::memset(dx + (at / pieces * slabs.input + first) * slab_elements, 0,
                    static_cast<size_t>(count * slab_elements) * sizeof(float));
        loop(p.of, input_floats(call, 0), input_as<uint8_t>(call, 1), dx, at * outputs,
             (at + 1) * outputs);
      }
    });
  });
}

constexpr CpuEntry kEntries[] = {
    {"max_pool3d", make_max_pool},
    {"max_pool3d_grad", make_max_pool_grad},
};

}  // namespace

CpuKernel make_volume_pooling(const NodeFacts& facts, const CpuOptions& options) {
  if (find_entry(kEntries, facts.op()) == nullptr) return {};
  if (facts.inputs[0].dtype != DType::kFloat32) return {};
  return make_listed(kEntries, facts, options);
}

}  // namespace plimsoll::backend::cpu
