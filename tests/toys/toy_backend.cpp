#include "toys/toy_backend.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace plimsoll::toys {
namespace {

using backend::KernelCall;
using backend::Operand;

constexpr size_t kMostDimensions = 6;

// Element (i, j) of an operand of at most two dimensions; further ones are folded into the second,
// which is right for dense samples.
float& at(const Operand& operand, int64_t i, int64_t j = 0) {
  const int64_t row = operand.strides.empty() ? 0 : i * operand.strides[0];
  return reinterpret_cast<float*>(operand.data)[row + j];
}

int64_t rows(const Operand& operand) { return operand.dims.empty() ? 1 : operand.dims[0]; }
int64_t columns(const Operand& operand) {
  int64_t count = 1;
  for (size_t d = 1; d < operand.dims.size(); ++d) count *= operand.dims[d];
  return count;
}

struct Facts {
  double factor = 1;
  bool bits = false;
  int64_t height = 0;
  std::vector<int64_t> whole;  // extents of input 0 after its batch
};
using Function = void (*)(const Facts&, const KernelCall&);

class ToyKernel final : public backend::Kernel {
 public:
  ToyKernel(Function function, Facts facts) : function_(function), facts_(facts) {}
  void run(const KernelCall& call) const noexcept override {
    if (call.outputs[0].data != nullptr) function_(facts_, call);
  }

 private:
  Function function_;
  Facts facts_;
};

template <typename Body>
void for_each(const Operand& operand, Body body) {
  for (int64_t i = 0; i < rows(operand); ++i) {
    for (int64_t j = 0; j < columns(operand); ++j) body(i, j);
  }
}

void scale(const Facts& facts, const KernelCall& call) {
  for_each(call.outputs[0], [&](int64_t i, int64_t j) {
    at(call.outputs[0], i, j) = static_cast<float>(facts.factor) * at(call.inputs[0], i, j);
  });
}

void gate(const Facts& facts, const KernelCall& call) {
  const auto* bits = reinterpret_cast<const uint8_t*>(call.inputs[1].data);
  const int64_t row = (columns(call.outputs[0]) + 7) / 8;
  for_each(call.outputs[0], [&](int64_t i, int64_t j) {
    const bool open =
        facts.bits ? (bits[i * row + j / 8] >> (j % 8) & 1) != 0 : at(call.inputs[1], i, j) > 0;
    at(call.outputs[0], i, j) = open ? at(call.inputs[0], i, j) : 0.0F;
  });
}

void shift(const Facts&, const KernelCall& call) {
  const auto* t = reinterpret_cast<const float*>(call.inputs[1].data);
  for_each(call.outputs[0], [&](int64_t i, int64_t j) {
    at(call.outputs[0], i, j) = at(call.inputs[0], i, j) + t[j] / 8;
  });
}

void copy(const Facts&, const KernelCall& call) {
  for (int64_t i = 0; i < rows(call.outputs[0]); ++i) {
    for (int64_t j = 0; j < columns(call.outputs[0]); ++j) {
      at(call.outputs[0], i, j) = at(call.inputs[0], i, j);
    }
  }
}

void add(const Facts&, const KernelCall& call) {
  for_each(call.outputs[0], [&](int64_t i, int64_t j) {
    at(call.outputs[0], i, j) = at(call.inputs[0], i, j) + at(call.inputs[1], i, j);
  });
}

void mix(const Facts&, const KernelCall& call) {
  for_each(call.outputs[0], [&](int64_t i, int64_t j) {
    at(call.outputs[0], i, j) =
        at(call.inputs[0], i, j) - at(call.inputs[0], rows(call.inputs[0]) - 1 - i, j);
  });
}

void descend(const Facts&, const KernelCall& call) {
  for_each(call.outputs[0], [&](int64_t i, int64_t j) {
    at(call.outputs[0], i, j) = at(call.inputs[0], i, j) - at(call.inputs[1], i, j) / 16;
  });
}

// The region of the input is clipped at the edges of the image.
void smooth(const Facts& facts, const KernelCall& call) {
  const int64_t first = std::max<int64_t>(call.begin[1] - 1, 0);
  for (int64_t i = 0; i < rows(call.outputs[0]); ++i) {
    for (int64_t j = 0; j < call.extents[1]; ++j) {
      const int64_t h = call.begin[1] + j;
      float sum = 2 * at(call.inputs[0], i, h - first);
      if (h > 0) sum += at(call.inputs[0], i, h - 1 - first);
      if (h + 1 < facts.height) sum += at(call.inputs[0], i, h + 1 - first);
      at(call.outputs[0], i, j) = sum;
    }
  }
}

void total(const Facts&, const KernelCall& call) {
  auto* sums = reinterpret_cast<float*>(call.outputs[0].data);
  for (int64_t j = 0; j < columns(call.inputs[0]); ++j) {
    float sum = 0;
    for (int64_t i = 0; i < rows(call.inputs[0]); ++i) sum += at(call.inputs[0], i, j);
    sums[j] = call.first ? sum : sums[j] + sum;
  }
}

void row_sum(const Facts&, const KernelCall& call) {
  for (int64_t i = 0; i < rows(call.inputs[0]); ++i) {
    float sum = 0;
    for (int64_t j = 0; j < columns(call.inputs[0]); ++j) sum += at(call.inputs[0], i, j);
    float& result = at(call.outputs[0], i);
    result = call.first ? sum : result + sum;
  }
}

void grand_total(const Facts&, const KernelCall& call) {
  float sum = 0;
  for_each(call.inputs[0], [&](int64_t i, int64_t j) { sum += at(call.inputs[0], i, j); });
  float& result = at(call.outputs[0], 0);
  result = call.first ? sum : result + sum;
}

void backward_sum(const Facts&, const KernelCall& call) {
  for (int64_t i = 0; i < rows(call.inputs[0]); ++i) {
    float state = call.first ? 0.0F : at(call.outputs[0], i);
    for (int64_t j = columns(call.inputs[0]); j-- > 0;) {
      state = 0.5F * state + at(call.inputs[0], i, j);
    }
    at(call.outputs[0], i) = state;
  }
}

void lines(const Facts&, const KernelCall& call) {
  std::memset(call.scratch, 1, static_cast<size_t>(64 * call.extents[0]));
  for_each(call.outputs[0], [&](int64_t i, int64_t j) {
    float sum = 0;
    for (int64_t k = 0; k < columns(call.inputs[0]); ++k) {
      sum += at(call.inputs[0], i, k) * at(call.inputs[1], k, j);
    }
    at(call.outputs[0], i, j) = sum;
  });
}

void lines_grad(const Facts&, const KernelCall& call) {
  for_each(call.outputs[0], [&](int64_t k, int64_t j) {
    float sum = 0;
    for (int64_t i = 0; i < rows(call.inputs[0]); ++i) {
      sum += at(call.inputs[0], i, k) * at(call.inputs[1], i, j);
    }
    float& result = at(call.outputs[0], k, j);
    result = call.first ? sum : result + sum;
  });
}

void encode_bits(const Facts&, const KernelCall& call) {
  auto* bits = reinterpret_cast<uint8_t*>(call.outputs[0].data);
  const int64_t row = (columns(call.inputs[0]) + 7) / 8;
  std::memset(bits, 0, static_cast<size_t>(rows(call.inputs[0]) * row));
  for_each(call.inputs[0], [&](int64_t i, int64_t j) {
    if (at(call.inputs[0], i, j) > 0) {
      bits[i * row + j / 8] = static_cast<uint8_t>(bits[i * row + j / 8] | 1U << (j % 8));
    }
  });
}

// Visits every index of a region of any rank.
template <typename Body>
void for_each_index(std::span<const int64_t> dims, Body body) {
  std::array<int64_t, kMostDimensions> at{};
  for (int64_t dim : dims) {
    if (dim == 0) return;
  }
  while (true) {
    body(std::span<int64_t>(at).first(dims.size()));
    size_t d = dims.size();
    while (d > 0 && ++at[d - 1] == dims[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

float& element(const Operand& operand, std::span<const int64_t> index) {
  int64_t place = 0;
  for (size_t d = 0; d < index.size(); ++d) place += index[d] * operand.strides[d];
  return reinterpret_cast<float*>(operand.data)[place];
}

void lift(const Facts& facts, const KernelCall& call) {
  for_each_index(call.outputs[0].dims, [&](std::span<const int64_t> at) {
    element(call.outputs[0], at) =
        static_cast<float>(facts.factor) * element(call.inputs[0], at) + 1.0F;
  });
}

// Axes 1 and, where there is one, 2 are windows; what the input holds of them begins a row earlier.
void blur(const Facts& facts, const KernelCall& call) {
  const size_t axes = std::min<size_t>(2, facts.whole.size());
  for_each_index(call.outputs[0].dims, [&](std::span<const int64_t> at) {
    std::array<int64_t, kMostDimensions> from{};
    std::ranges::copy(at, from.begin());
    float sum = 0;
    for (int64_t i = -1; i <= 1; ++i) {
      for (int64_t j = axes > 1 ? -1 : 0; j <= (axes > 1 ? 1 : 0); ++j) {
        bool inside = true;
        for (size_t a = 0; a < axes; ++a) {
          const int64_t row = call.begin[a + 1] + at[a + 1] + (a == 0 ? i : j);
          inside = inside && row >= 0 && row < facts.whole[a];
          from[a + 1] = row - std::max<int64_t>(call.begin[a + 1] - 1, 0);
        }
        if (inside) sum += element(call.inputs[0], std::span(from).first(at.size()));
      }
    }
    element(call.outputs[0], at) = sum;
  });
}

void halve(const Facts&, const KernelCall& call) {
  for_each_index(call.outputs[0].dims, [&](std::span<const int64_t> at) {
    std::array<int64_t, kMostDimensions> from{};
    std::ranges::copy(at, from.begin());
    const auto pair = std::span(from).first(at.size());
    pair[1] = 2 * at[1];
    const float first = element(call.inputs[0], pair);
    ++pair[1];
    element(call.outputs[0], at) = first + 3.0F * element(call.inputs[0], pair);
  });
}

// Over dimension 1 alone, or over all others.
void sum_over(const KernelCall& call, bool depth_only) {
  const Operand& x = call.inputs[0];
  if (call.first) {
    for_each_index(call.outputs[0].dims,
                   [&](std::span<const int64_t> at) { element(call.outputs[0], at) = 0; });
  }
  for_each_index(x.dims, [&](std::span<const int64_t> at) {
    std::array<int64_t, kMostDimensions> to{};
    size_t rank = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      if (depth_only ? d != 1 : d == 1) to[rank++] = at[d];
    }
    element(call.outputs[0], std::span(to).first(rank)) += element(x, at);
  });
}

void depth_sum(const Facts&, const KernelCall& call) { sum_over(call, true); }
void slab_sum(const Facts&, const KernelCall& call) { sum_over(call, false); }

Function function_of(std::string_view op) {
  static const std::map<std::string_view, Function> kFunctions = {{"scale", scale},
                                                                  {"gate", gate},
                                                                  {"shift", shift},
                                                                  {"flat", copy},
                                                                  {"accumulate", add},
                                                                  {"mix", mix},
                                                                  {"total", total},
                                                                  {"row_sum", row_sum},
                                                                  {"grand_total", grand_total},
                                                                  {"backward_sum", backward_sum},
                                                                  {"lines", lines},
                                                                  {"lines_grad", lines_grad},
                                                                  {"smooth", smooth},
                                                                  {"descend", descend},
                                                                  {"lift", lift},
                                                                  {"blur", blur},
                                                                  {"halve", halve},
                                                                  {"depth_sum", depth_sum},
                                                                  {"slab_sum", slab_sum}};
  const auto found = kFunctions.find(op);
  PLIMSOLL_CHECK(found != kFunctions.end(), "no toy kernel for " + std::string(op));
  return found->second;
}

}  // namespace

std::unique_ptr<backend::Kernel> ToyBackend::make_kernel(const backend::KernelRequest& request) {
  const graph::Node& node = request.graph.node(request.node);
  Facts facts;
  facts.factor = node.attributes.get_double("factor", 1.0);
  facts.bits = request.forms.size() > 1 && !request.forms[1].empty();
  const std::vector<int64_t> dims = request.graph.value(node.inputs[0]).type.shape.at(1);
  PLIMSOLL_CHECK(dims.size() <= kMostDimensions, "toys have few dimensions");
  if (!dims.empty()) facts.whole.assign(dims.begin() + 1, dims.end());
  if (node.op->name() == "smooth") {
    facts.height = request.graph.value(node.inputs[0]).type.shape[1].count;
  }
  return std::make_unique<ToyKernel>(function_of(node.op->name()), facts);
}

std::unique_ptr<backend::Kernel> ToyBackend::make_encoder(const backend::EncoderRequest&) {
  return std::make_unique<ToyKernel>(encode_bits, Facts{});
}

}  // namespace plimsoll::toys
