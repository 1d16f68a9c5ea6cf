#include <array>

#include "backend/kernel/kernel.h"
#include "backend/kernel/moments_join.h"
#include "base/error.h"
#include "base/format.h"
#include "graph/op_traits.h"

// Joins sums over lanes: plain loops, since a sum is joined once for each lane.

namespace plimsoll::backend {
namespace {

constexpr size_t kMostRank = 16;

// Calls visit(from, to, count) for each run of elements that lie side by side in both.
template <typename T, typename Visit>
void for_each_run(const Operand& from, const Operand& to, const Visit& visit) {
  const size_t rank = to.dims.size();
  const int64_t count = rank == 0 ? 1 : to.dims[rank - 1];
  std::array<int64_t, kMostRank> at{};
  while (true) {
    int64_t a = 0;
    int64_t b = 0;
    for (size_t d = 0; d + 1 < rank; ++d) {
      a += at[d] * from.strides[d];
      b += at[d] * to.strides[d];
    }
    visit(reinterpret_cast<const T*>(from.data) + a, reinterpret_cast<T*>(to.data) + b, count);
    size_t d = rank == 0 ? 0 : rank - 1;
    while (d > 0 && ++at[d - 1] == to.dims[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

template <typename T>
class AddedSums final : public Kernel {
 public:
  void run(const KernelCall& call) const noexcept override {
    for_each_run<T>(call.inputs[0], call.outputs[0], [](const T* from, T* to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) to[i] += from[i];
    });
  }
};

template <typename T>
class JoinedMoments final : public Kernel {
 public:
  explicit JoinedMoments(int64_t rows_per_sample)
      : rows_per_sample_(static_cast<double>(rows_per_sample)) {}

  void run(const KernelCall& call) const noexcept override {
    const Operand& added = call.inputs[0];
    const Operand& sum = call.outputs[0];
    const double before = static_cast<double>(call.begin[0]) * rows_per_sample_;
    const double rows = static_cast<double>(call.extents[0]) * rows_per_sample_;
    const T* from = reinterpret_cast<const T*>(added.data);
    T* to = reinterpret_cast<T*>(sum.data);
    join_moments<T>({from, from + added.strides[0]}, rows, {to, to + sum.strides[0]}, before,
                    sum.dims[1]);
  }

 private:
  double rows_per_sample_;
};

template <typename T>
std::unique_ptr<Kernel> make(const JoinRequest& request) {
  const graph::Node& node = request.graph.node(request.node);
  if (node.op->traits().lanes != graph::LaneJoining::kMoments) {
    return std::make_unique<AddedSums<T>>();
  }
  const Shape& x = request.graph.value(node.inputs[0]).type.shape;
  return std::make_unique<JoinedMoments<T>>(x.elements_per_sample() / x[x.rank() - 1].count);
}

}  // namespace

std::unique_ptr<Kernel> Backend::make_join(const JoinRequest& request) {
  const graph::Node& node = request.graph.node(request.node);
  PLIMSOLL_CHECK(request.dims.size() <= kMostRank, "a sum of too many dimensions");
  const DType dtype = request.graph.value(node.outputs[request.output]).type.dtype;
  switch (dtype) {
    case DType::kFloat32:
      return make<float>(request);
    case DType::kFloat64:
      return make<double>(request);
    case DType::kInt32:
      return std::make_unique<AddedSums<int32_t>>();
    case DType::kInt64:
      return std::make_unique<AddedSums<int64_t>>();
    default:
      throw Error(ErrorKind::kBackend,
                  fmt::format("{}: expected a sum of float32, float64, int32 or int64 over lanes, "
                              "received {}. Use one lane.",
                              node.name, to_string(dtype)));
  }
}

}  // namespace plimsoll::backend
