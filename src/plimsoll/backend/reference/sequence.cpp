// Masks, reversal of an axis, dropout of whole channels, rows that are kept from batch to batch.

#include <algorithm>
#include <cstring>

#include "backend/reference/loops.h"
#include "backend/reference/problem.h"
#include "ops/dropout_mask.h"

namespace plimsoll::backend::reference {
namespace {

std::unique_ptr<Kernel> make_apply_mask(const Problem& problem) {
  return for_float(problem.inputs[0].dtype, [](auto zero) {
    using T = decltype(zero);
    return kernel_of([](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& mask = call.inputs[1];
      const Operand& y = call.outputs[0];
      const size_t outer = mask.dims.size();
      for_each_index<3>(mask.dims, {mask.strides, x.strides.first(outer), y.strides.first(outer)},
                        [&](const auto& at, int64_t) {
                          const bool counts = data_of<const uint8_t>(mask)[at[0]] != 0;
                          for_each_run<2>(x.dims.subspan(outer),
                                          {x.strides.subspan(outer), y.strides.subspan(outer)},
                                          [&](const auto& inner, int64_t, int64_t count) {
                                            const T* in = data_of<const T>(x) + at[1] + inner[0];
                                            T* out = data_of<T>(y) + at[2] + inner[1];
                                            for (int64_t i = 0; i < count; ++i)
                                              out[i] = counts ? in[i] : T(0);
                                          });
                        });
    });
  });
}

std::unique_ptr<Kernel> make_any_so_far(const Problem& problem) {
  const bool backwards = problem.attributes.get_bool("go_backwards", false);
  return kernel_of([backwards](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    for (int64_t b = 0; b < x.dims[0]; ++b) {
      bool any = false;
      for (int64_t i = 0; i < x.dims[1]; ++i) {
        const int64_t t = backwards ? x.dims[1] - 1 - i : i;
        any = any || data_of<const uint8_t>(x)[b * x.strides[0] + t * x.strides[1]] != 0;
        data_of<uint8_t>(y)[b * y.strides[0] + t * y.strides[1]] = any ? 1 : 0;
      }
    }
  });
}

std::unique_ptr<Kernel> make_reverse(const Problem& problem) {
  const int64_t element = element_bytes(problem.inputs[0].dtype).count();
  const int64_t given = problem.attributes.get_int("axis", -1);
  const auto axis = static_cast<size_t>(given < 0 ? given + problem.inputs[0].shape.rank() : given);
  return kernel_of([axis, element](const KernelCall& call) {
    const Operand& x = call.inputs[0];
    const Operand& y = call.outputs[0];
    const int64_t length = x.dims[axis];
    const size_t inner = axis + 1;
    for_each_index<2>(x.dims.first(inner), {x.strides.first(inner), y.strides.first(inner)},
                      [&](const auto& at, int64_t position) {
                        const int64_t i = position % length;
                        const int64_t mirrored = at[1] + (length - 1 - 2 * i) * y.strides[axis];
                        for_each_run<2>(x.dims.subspan(inner),
                                        {x.strides.subspan(inner), y.strides.subspan(inner)},
                                        [&](const auto& rest, int64_t, int64_t count) {
                                          std::memcpy(y.data + (mirrored + rest[1]) * element,
                                                      x.data + (at[0] + rest[0]) * element,
                                                      static_cast<size_t>(count * element));
                                        });
                      });
  });
}

std::unique_ptr<Kernel> make_spatial_dropout(const Problem& problem) {
  const double rate = problem.attributes.get_double("rate");
  const int64_t site = problem.attributes.get_int("site");
  const int batch_axis = problem.axis(graph::kBatchAxis);
  const Dim rows = problem.inputs[0].shape[0];
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([=](const KernelCall& call) {
      const Operand& x = call.inputs[0];
      const Operand& y = call.outputs[0];
      const T scale = static_cast<T>(1.0 / (1.0 - rate));
      const Philox stream = ops::dropout_stream(call.step->seed, call.step->step, site);
      const int64_t channels = x.dims.back();
      const int64_t first = call.first_sample(batch_axis) * rows.count;
      const size_t outer = x.dims.size() - 1;
      int64_t positions = 1;
      for (size_t d = 1; d < outer; ++d) positions *= x.dims[d];
      for_each_index<2>(
          x.dims.first(outer), {x.strides.first(outer), y.strides.first(outer)},
          [&](const auto& at, int64_t position) {
            const int64_t row = first + position / positions;
            for (int64_t c = 0; c < channels; ++c) {
              const bool keep = stream.uniform(static_cast<uint64_t>(row * channels + c)) >=
                                static_cast<float>(rate);
              data_of<T>(y)[at[1] + c] = keep ? data_of<const T>(x)[at[0] + c] * scale : T(0);
            }
          });
    });
  });
}

// Rows of a variable by the samples' places in the batch; a place that it has no row for gives 0.
template <bool kPuts>
std::unique_ptr<Kernel> make_batch_rows(const Problem& problem) {
  const int batch_axis = problem.axis(graph::kBatchAxis);
  return for_float(problem.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    return kernel_of([batch_axis](const KernelCall& call) {
      const Operand& kept = kPuts ? call.outputs[0] : call.inputs[0];
      const Operand& samples = kPuts ? call.inputs[0] : call.outputs[0];
      const int64_t columns = kept.dims[1];
      const auto row_of = [&](int64_t row) { return data_of<T>(kept) + row * kept.strides[0]; };
      if (kPuts && call.first) {
        for (int64_t row = 0; row < kept.dims[0]; ++row) std::fill_n(row_of(row), columns, T(0));
      }
      const int64_t first = call.first_sample(batch_axis);
      for (int64_t n = 0; n < samples.dims[0]; ++n) {
        T* sample = data_of<T>(samples) + n * samples.strides[0];
        const bool known = first + n < kept.dims[0];
        if (kPuts && known) std::copy_n(sample, columns, row_of(first + n));
        if (!kPuts && known) std::copy_n(row_of(first + n), columns, sample);
        if (!kPuts && !known) std::fill_n(sample, columns, T(0));
      }
    });
  });
}

constexpr KernelEntry kEntries[] = {
    {"any_so_far", make_any_so_far},           {"apply_mask", make_apply_mask},
    {"put_rows", make_batch_rows<true>},       {"reverse", make_reverse},
    {"spatial_dropout", make_spatial_dropout}, {"spatial_dropout_grad", make_spatial_dropout},
    {"take_rows", make_batch_rows<false>},
};

}  // namespace

std::span<const KernelEntry> sequence_kernels() { return kEntries; }

}  // namespace plimsoll::backend::reference
