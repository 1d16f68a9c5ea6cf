#include "backend/onednn/resident.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/conv/winograd.h"
#include "backend/kernel/tail.h"
#include "backend/onednn/packed_layout.h"
#include "base/pages/code_pages.h"
#include "graph/lanes.h"
#include "graph/op.h"

namespace plimsoll::backend::onednn {
namespace {

// What a process takes whose code is mapped in small pieces (base/pages/code_pages.h), so that
// copies of the files that the page cache holds otherwise differ by half a MiB.
constexpr Bytes kEngineBytes = 14_MiB + 640_KiB;
// A thread that kernels share their work with: its stacks, and code that runs on it alone.
constexpr Bytes kThreadBytes = 160_KiB;
// Loading the library walks through its initializers, making primitives through the code of all
// kernels that might have been chosen. Starts of copies that were written and read in pieces of
// 4 KiB to 2 MiB took 22.1 to 23.5 MiB, data that were opened included.
constexpr Bytes kLoadingBytes = 24_MiB + 256_KiB;
// What a process takes in addition that is not cut so: what faults map beyond, of the code that is
// met.
constexpr Bytes kUncutEngineBytes = 2_MiB + 768_KiB;
constexpr Bytes kUncutLoadingBytes = 2_MiB + 512_KiB;
constexpr Bytes kMakingBytes = 7_MiB + 384_KiB;

// What one primitive takes, by the start of its key: convolutions forward, to the input, to the
// kernel, of single points, of single channels, and others. Dense layers know theirs (dense.cpp).
// Without AVX-512 the code of some is unrolled along a row of the image: so many bytes more a
// column.
struct Row {
  std::string_view prefix;
  Bytes bytes;
  Bytes a_column;
};
constexpr Row kRows[] = {
    {"conv0point", 60_KiB, {}},     {"conv1point", 100_KiB, {}},    {"conv2point", 100_KiB, {}},
    {"conv0channel", 50_KiB, {}},   {"conv1channel", 60_KiB, {}},   {"conv2channel", 50_KiB, {}},
    {"conv0", 160_KiB, Bytes(100)}, {"conv1", 150_KiB, Bytes(100)}, {"conv2", 80_KiB, Bytes(690)}};
// The library's code of one such kind, once a process. Six kinds at once (a separable convolution
// of 100,000 to 3.6 million channels) passed by 0.6 MiB what their rows allow.
constexpr Bytes kCodeOfKind = 256_KiB;
// What one takes that multiplies matrices, dense layer or convolution: at most 21 KiB over 500
// shapes, its code is everybody's.
constexpr Bytes kByProductsBytes = 32_KiB;
// By how much the code of `count` products may exceed what is allowed for each. Sums of random ones
// did by 280 KiB (one), 372 (two), 436 (five), 538 (ten) and 706 (thirty); of more by less.
Bytes uneven_bytes(int64_t count) {
  if (count == 0) return {};
  return min(768_KiB, 320_KiB + 32_KiB * count);
}
// Code of the library's products of matrices, once a process, and what a thread lays out for one.
constexpr Bytes kProductsBytes = 4_MiB;
constexpr Bytes kProductsOfThread = 512_KiB;
// What the library lays out for a while to describe a convolution: so many bytes a column, of which
// sequences have millions. Nothing for single points but towards the input: at most 300 KiB were
// met, whatever their number.
constexpr Bytes kDescribingColumn{64};
// Nothing either for direct ones: 20 MiB too much were counted for 180,000 columns of a gradient.
bool lays_out_columns(const PrimitiveUse& use) {
  return !use.direct && !use.key.starts_with("conv0point") && !use.key.starts_with("conv2point");
}
// Objects of one of a node's kernels: of what is the vendor's, of our own and the reference's.
constexpr Bytes kAddedKernel = 2_KiB;
constexpr Bytes kOwnKernel{1536};

int64_t kernels_of(const PrimitiveLibrary& library, const graph::Program& program,
                   graph::NodeId node) {
  const std::vector<int64_t> block = graph::concrete_block(
      program.graph, node, library.blocks().block(program.graph, node), program.batch);
  return shape_count(graph::axes_of(program.graph, node), block, program);
}

// Objects of a node's kernels, whose primitives are `uses`.
Bytes object_bytes(int64_t kernels, const std::vector<PrimitiveUse>& uses) {
  if (!uses.empty()) return kAddedKernel * std::ssize(uses);
  return kOwnKernel * kernels;
}

// Where the elements of a convolution's packed weight lie (packed_layout.h): a number for each
// filter, and one for each element of a filter. What usual ones take is part of kRows.
constexpr Bytes kOffsetsInRows = 64_KiB;

// What a node that packs weights takes for that, by the layout it shares the table of.
void add_pack(const graph::Node& node, std::map<std::string, Bytes>& tables) {
  if (!node.op->traits().pack) return;
  const std::string layout = node.attributes.get_string("layout");
  if (!cpu::is_winograd(layout)) tables[layout] = offset_table_bytes(parse_packed_layout(layout));
}

// The row of a convolution that is not counted otherwise.
const Row* row_of(const PrimitiveUse& use) {
  if (use.products || use.code != Bytes()) return nullptr;
  const auto* const row =
      std::ranges::find_if(kRows, [&](const Row& r) { return use.key.starts_with(r.prefix); });
  return row == std::end(kRows) ? nullptr : row;
}

Bytes primitive_bytes(const PrimitiveUse& use, bool unrolled) {
  if (use.products) return kByProductsBytes;
  if (use.code != Bytes()) return use.code;
  const Row* const row = row_of(use);
  if (row == nullptr) return {};
  return unrolled ? row->bytes + row->a_column * columns_of_key(use.key) : row->bytes;
}

// While a plan is searched the cache keeps descriptions; once kernels are made, these do.
Bytes most_described(std::vector<Bytes> described) {
  std::ranges::sort(described, std::greater<>());
  described.resize(std::min(described.size(), PrimitiveCache::kDescribed));
  return std::accumulate(described.begin(), described.end(), Bytes());
}

}  // namespace

ResidentBytes estimate_resident_bytes(const PrimitiveLibrary& library,
                                      const graph::ProgramSet& programs, int threads) {
  std::map<std::string, PrimitiveUse> uses;
  Bytes kernels;
  std::map<std::string, Bytes> offsets;  // by layout
  for (const graph::Program& program : programs.programs) {
    const std::shared_ptr<const void> remembered = library.blocks().remember(program.graph);
    for (size_t n = 0; n < program.graph.nodes.size(); ++n) {
      const std::vector<PrimitiveUse> own = library.primitives(
          program.graph, graph::NodeId(n), program.batch, graph::lane_length(program));
      const int64_t shapes = kernels_of(library, program, graph::NodeId(n));
      kernels += object_bytes(shapes, own);
      add_pack(program.graph.node(graph::NodeId(n)), offsets);
      for (const PrimitiveUse& use : own) {
        uses.emplace(use.key, use);
        offsets.insert(use.moves.begin(), use.moves.end());
      }
    }
  }
  for (const auto& [layout, bytes] : offsets) kernels += max(bytes - kOffsetsInRows, Bytes());
  const bool unrolled = library.isa() != cpu::Isa::kAvx512;
  Bytes describing;  // while a plan is searched
  Bytes passing;     // while kernels are made
  bool products = false;
  std::set<const Row*> kinds;
  int64_t uneven = 0;
  std::vector<Bytes> described;
  for (const auto& [key, use] : uses) {
    kernels += primitive_bytes(use, unrolled) + use.tables;
    const int64_t columns = lays_out_columns(use) ? columns_of_key(key) : 0;
    const Bytes laid_out = max(kDescribingColumn * columns, use.passing);
    describing = max(describing, max(laid_out, use.described));
    passing = max(passing, max(laid_out, use.making));
    described.push_back(use.described);
    products = products || use.products;
    if (const Row* const row = row_of(use)) kinds.insert(row);
    if (!use.products && use.code != Bytes()) ++uneven;
  }
  kernels += uneven_bytes(uneven) + kCodeOfKind * std::ssize(kinds);
  if (products) kernels += kProductsBytes + kProductsOfThread * threads;
  const bool cut = code_is_cut();
  const Bytes engine =
      kEngineBytes + (cut ? Bytes() : kUncutEngineBytes) + kThreadBytes * (threads - 1);
  const Bytes loading = kLoadingBytes + (cut ? Bytes() : kUncutLoadingBytes);
  // The library's code is walked through where it makes anything.
  const Bytes walked = uses.empty() ? Bytes() : kMakingBytes;
  const Bytes making = engine + walked + kernels + passing;
  return {.engine = engine,
          .kernels = kernels,
          .start_up = max(loading, making),
          .making = making,
          .describing = describing + most_described(std::move(described))};
}

}  // namespace plimsoll::backend::onednn
