// What is chosen by masks: dropout of whole channels, apply_mask, select.

#include <algorithm>
#include <cstring>

#include "backend/cpu/families.h"
#include "ops/dropout_mask.h"

#define PLIMSOLL_LOOPS_HEADER "backend/cpu/pointwise/masks_inl.h"
#include "backend/cpu/simd/for_each_isa.h"

namespace plimsoll::backend::cpu {
namespace {

constexpr int64_t kGrain = 1024;

// Samples of `rows` rows of channels. Draws of a sample are repeated to `width` numbers, so that
// few channels fill vectors too.
struct ChannelDraws {
  int64_t samples = 1;
  int64_t channels = 1;
  int64_t elements = 1;  // of a sample
  int64_t width = 1;     // a multiple of the channels
};

ChannelDraws read_channel_draws(const NodeFacts& facts) {
  constexpr int64_t kWidth = 256;
  const Shape& x = facts.inputs[0].shape;
  ChannelDraws d;
  d.channels = x[x.rank() - 1].count;
  d.samples = facts.samples() * x[0].at(1);
  d.elements = facts.input_elements(0) / d.samples;
  const int64_t rows = d.elements / d.channels;
  d.width = d.channels * std::clamp<int64_t>(kWidth / d.channels, 1, rows);
  return d;
}

template <typename T>
CpuKernel make_spatial_dropout(const NodeFacts& facts, const CpuOptions& options) {
  const double rate = facts.attributes.get_double("rate");
  const int64_t site = facts.attributes.get_int("site");
  const auto loop = PLIMSOLL_PICK(options.isa, keep_drawn<T>);
  const int axis = graph::find_axis(facts.axes, graph::kBatchAxis);
  const int64_t rows_per_sample = facts.inputs[0].shape[0].count;
  const ChannelDraws d = read_channel_draws(facts);
  const int parts =
      parts_for(d.samples * d.elements * 2 * static_cast<int64_t>(sizeof(T)), options.parts);
  return kernel_of(
      [=](const KernelCall& call) {
        const Philox stream = ops::dropout_stream(call.step->seed, call.step->step, site);
        const int64_t first = call.first_sample(axis) * rows_per_sample;
        const auto scale = static_cast<float>(1.0 / (1.0 - rate));
        auto* draws = reinterpret_cast<float*>(call.scratch);
        for (int64_t sample = 0; sample < d.samples; ++sample) {
          float* own = draws + sample * d.width;
          stream.fill_uniform(static_cast<uint64_t>((first + sample) * d.channels),
                              {own, static_cast<size_t>(d.channels)});
          for (int64_t i = d.channels; i < d.width; ++i) own[i] = own[i - d.channels];
        }
        const int64_t chunks = ceil_div(d.elements, d.width);
        for_each_range(d.samples * chunks, 1, parts, [&](int64_t begin, int64_t end) {
          for (int64_t at = begin; at < end; ++at) {
            const int64_t from = at % chunks * d.width;
            const int64_t offset = at / chunks * d.elements + from;
            loop(input_as<T>(call, 0) + offset, draws + at / chunks * d.width,
                 static_cast<float>(rate), scale, output_as<T>(call, 0) + offset,
                 std::min(d.width, d.elements - from));
          }
        });
      },
      Bytes(d.samples * d.width * static_cast<int64_t>(sizeof(float))));
}

using SelectLoop = void (*)(const void* a, const void* b, const uint8_t* mask, void* y,
                            int64_t count);

SelectLoop select_loop(int64_t element, Isa isa) {
  if (element == 2) return PLIMSOLL_PICK(isa, select_each<uint16_t>);
  if (element == 4) return PLIMSOLL_PICK(isa, select_each<uint32_t>);
  return element == 8 ? PLIMSOLL_PICK(isa, select_each<uint64_t>) : nullptr;
}

// `row` bytes of a where the mask counts, else of b or zeros.
void select_row(bool counts, const std::byte* a, const std::byte* b, std::byte* y, int64_t row) {
  const std::byte* from = counts ? a : b;
  if (from == y) return;
  if (from == nullptr) {
    std::memset(y, 0, static_cast<size_t>(row));
  } else {
    std::memcpy(y, from, static_cast<size_t>(row));
  }
}

// `otherwise`: the operand where the mask does not count; 0: zeros.
CpuKernel make_selection(const NodeFacts& facts, const CpuOptions& options, size_t otherwise) {
  const size_t mask = otherwise + 1;
  const int64_t element = element_bytes(facts.outputs[0].dtype).count();
  const int64_t rows = facts.input_elements(mask);
  const int64_t row = facts.output_elements(0) / rows;  // elements
  const SelectLoop loop = select_loop(element, options.isa);
  if (loop == nullptr) return {};
  const int64_t arrays = otherwise == 0 ? 2 : 3;
  const int parts = parts_for(rows * row * element * arrays, options.parts);
  return kernel_of([=](const KernelCall& call) {
    const auto* counts = reinterpret_cast<const uint8_t*>(call.inputs[mask].data);
    const auto b = [&](int64_t at) {
      return otherwise == 0 ? nullptr : call.inputs[otherwise].data + at * element;
    };
    if (row == 1) {
      for_each_range(rows, kGrain, parts, [&](int64_t begin, int64_t end) {
        loop(call.inputs[0].data + begin * element, b(begin), counts + begin,
             call.outputs[0].data + begin * element, end - begin);
      });
      return;
    }
    for_each_range(rows, 1, parts, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        select_row(counts[r] != 0, call.inputs[0].data + r * row * element, b(r * row),
                   call.outputs[0].data + r * row * element, row * element);
      }
    });
  });
}

CpuKernel make_apply_mask(const NodeFacts& facts, const CpuOptions& options) {
  return make_selection(facts, options, 0);
}
CpuKernel make_select(const NodeFacts& facts, const CpuOptions& options) {
  return make_selection(facts, options, 1);
}

constexpr CpuEntry kSelections[] = {{"apply_mask", make_apply_mask}, {"select", make_select}};
template <typename T>
constexpr CpuEntry kDraws[] = {
    {"spatial_dropout", make_spatial_dropout<T>},
    {"spatial_dropout_grad", make_spatial_dropout<T>},
};

}  // namespace

CpuKernel make_masks(const NodeFacts& facts, const CpuOptions& options) {
  if (find_entry(kSelections, facts.op()) != nullptr) {
    return make_listed(kSelections, facts, options);
  }
  if (facts.all_float32()) return make_listed(kDraws<float>, facts, options);
  if (facts.leads_with_bfloat16()) return make_listed(kDraws<uint16_t>, facts, options);
  return {};
}

}  // namespace plimsoll::backend::cpu
