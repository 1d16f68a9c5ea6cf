// What the backend holds outside of the arena: shared primitives, dropped library pages, estimates.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>

#include "backend/cpu/simd/isa.h"
#include "backend/onednn/library_pages.h"
#include "backend/onednn/primitive_cache.h"
#include "base/cpu.h"
#include "base/process_memory.h"
#include "unit/backend/kernel_graphs.h"

namespace plimsoll::backend_test {
namespace {

using backend::onednn::Compiled;
using backend::onednn::PrimitiveCache;

TEST(PrimitiveCache, MakesOncePerKeyAndForgetsTheOldest) {
  PrimitiveCache cache;
  int made = 0;
  const auto get = [&](const std::string& key) {
    return cache.get(key, [&] {
      ++made;
      return std::make_shared<Compiled>();
    });
  };
  const auto first = get("first");
  EXPECT_EQ(get("first"), first);
  EXPECT_EQ(made, 1);
  for (int i = 0; i < 2000; ++i) {
    get("key " + std::to_string(i));
    get("first");  // used all along, so never the oldest
  }
  EXPECT_EQ(made, 2001);
  EXPECT_EQ(get("first"), first);
  get("key 0");
  EXPECT_EQ(made, 2002);
  EXPECT_EQ(cache.compiled_count(), 0u);
}

// The library goes on working when its pages are taken away at any time.
TEST(LibraryPages, ComeBackWhenNeeded) {
  const KernelGraph graph = convolution_graphs().front();
  const auto backend = make_onednn(2);
  const graph::Graph mine = prepared(*backend, graph.graph);
  const auto expected = run_graph(*backend, mine, 3);
  const Bytes before = read_process_memory().file;
  backend::onednn::drop_library_pages();
  const Bytes after = read_process_memory().file;
  EXPECT_LT(after, before);
  expect_same_bits(mine, run_graph(*backend, mine, 3), expected, "after dropping pages");
}

graph::ProgramSet programs_of(const graph::Graph& graph, std::vector<int64_t> batches) {
  graph::ProgramSet set;
  for (int64_t batch : batches) set.programs.push_back({"p" + std::to_string(batch), graph, batch});
  return set;
}

TEST(ResidentBytes, CountPrimitivesOnceOverAllPrograms) {
  const auto backend = make_onednn(2, 4);
  const graph::Graph mine = prepared(*backend, convolution_graphs()[3].graph);
  const auto kernels = [&](std::vector<int64_t> batches) {
    return backend->resident_bytes(programs_of(mine, batches)).kernels;
  };
  const Bytes one = kernels({8});
  EXPECT_GT(one, 100_KiB);
  // Another batch of whole blocks needs no further code, a tail does.
  EXPECT_LT(kernels({8, 16}) - one, 100_KiB);
  EXPECT_GT(kernels({8, 11}) - one, 200_KiB);
  EXPECT_GT(backend->resident_bytes(programs_of(mine, {8})).engine, 4_MiB);
}

// Pieces of many sizes with holes between them, other ones for each `seed`.
class PiecesOfHeap {
 public:
  explicit PiecesOfHeap(uint32_t seed) {
    std::minstd_rand random(seed);
    for (std::unique_ptr<char[]>& piece : pieces_) {
      piece = std::make_unique<char[]>(16 + random() % 6000);
    }
    for (std::unique_ptr<char[]>& piece : pieces_) {
      if (random() % 2 == 0) piece.reset();
    }
  }

 private:
  std::array<std::unique_ptr<char[]>, 4000> pieces_;
};

size_t count_answers_in_heaps() {
  std::set<Bytes> answers;
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    const PiecesOfHeap pieces(seed);
    const auto backend = make_onednn(2);
    const graph::Graph mine = prepared(*backend, patch_graph().graph);
    answers.insert(backend->resident_bytes(programs_of(mine, {16})).kernels);
  }
  return answers.size();
}

// Equal questions get equal answers, whatever a process did before it plans: what the library's
// descriptions hold is read off the heap, which says some KiB more or less. A process of its own,
// since in one that has planned a hundred networks before it is up to 20 KiB.
TEST(ResidentBytes, AreTheSameInAnyHeap) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(count_answers_in_heaps() == 1 ? 0 : 1), testing::ExitedWithCode(0), "");
}

// Products of our own are no primitives.
TEST(ResidentBytes, MixedDenseLayersHaveNoPrimitives) {
  const auto backend = make_onednn(2, 8);
  if (!backend::cpu::has_pairs(read_cpu_info().isa) || !backend::cpu::kHasVariants) {
    GTEST_SKIP() << "pairs of bfloat16 are not multiplied here";
  }
  for (const KernelGraph& candidate : dense_graphs(true)) {
    if (candidate.name != "pieces" && candidate.name != "wide") continue;
    const graph::Graph mine = prepared(*backend, candidate.graph);
    EXPECT_LT(backend->resident_bytes(programs_of(mine, {11})).kernels, 100_KiB) << candidate.name;
  }
}

// The estimate of the kernels is an upper bound of what making and running them adds.
TEST(ResidentBytes, KernelsAreNotUnderstated) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer keeps freed memory";
#endif
  const auto backend = make_onednn(2, 8);
  graph::ProgramSet set;
  std::vector<graph::Graph> graphs;
  for (const KernelGraph& candidate : all_kernel_graphs()) {
    graphs.push_back(prepared(*backend, candidate.graph));
    set.programs.push_back({candidate.name, graphs.back(), 11});
    run_graph(*backend, graphs.back(), 2);  // loads what is common
  }
  const Bytes before = read_process_memory().anonymous;
  for (const graph::Graph& graph : graphs) run_graph(*backend, graph, 11);
  const Bytes after = read_process_memory().anonymous;
  EXPECT_LE(after - before, backend->resident_bytes(set).kernels);
}

}  // namespace
}  // namespace plimsoll::backend_test
