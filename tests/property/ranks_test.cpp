// Random networks trained by ranks that share every batch: the bits of one process with as many
// lanes, whatever plan each rank has.

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>

#include "backend/kernel/backends.h"
#include "base/error.h"
#include "graph/ranks.h"
#include "graph/verify.h"
#include "ops/fuse/fuse.h"
#include "ops/fuse/rank_messages.h"
#include "ops/fuse/shards.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "plan/validate/validator.h"
#include "property/compare_runs.h"
#include "property/random_network.h"
#include "toys/thread_ranks.h"

namespace plimsoll::property {
namespace {

struct Question {
  std::string backend;
  uint64_t seed = 0;
  int64_t lanes = 2;
  int stage = 0;  // of sharding
  ops::BucketSizes buckets{};
  bool beside = false;  // on ranks of odd numbers
};

graph::ProgramSet fused_network(const Question& question, const backend::Backend& backend) {
  graph::ProgramSet programs = random_network(question.seed);
  ops::Offers offers = backend.offers();
  offers.dense_update = Bytes();
  for (graph::Program& program : programs.programs) {
    program.lanes = question.lanes;
    program.graph = ops::fuse(program.graph, ops::registry(), offers, program.batch);
    program.graph = ops::insert_packs(
        program.graph, ops::registry(),
        [&](const graph::Graph& graph, graph::NodeId node) { return backend.packs(graph, node); });
  }
  return programs;
}

std::unique_ptr<backend::Backend> two_parts(const std::string& name) {
  backend::KernelSetOptions options;
  options.parts = 2;
  options.threads = 1;
  return backend::make_backend(name, options);
}

// The share of one rank, within its own limit.
struct RankRun {
  Results results;
  std::string wrong;
  int exchanges = 0;
  int joined = 0;  // of them, several sums in one
  int split = 0;   // of them, begun and waited for
  Sent sent;
  HeldParts held;

  void shard(graph::ProgramSet& programs, const Question& question, const graph::RankPlace& place) {
    const ops::ShardOptions options{.ranks = place.count, .stage = question.stage, .least = 2};
    const std::vector<ops::ShardedState> sharded = ops::find_sharded_states(programs, options);
    for (graph::Program& program : programs.programs) {
      program.graph = ops::insert_shards(program.graph, ops::registry(), sharded, options);
      program.graph = ops::join_rank_sums(program.graph, ops::registry(), question.buckets);
      if (question.beside && place.rank % 2 == 1) {
        program.graph = ops::split_rank_sums(program.graph, ops::registry());
      }
    }
    const std::optional<std::string> invalid = graph::verify(programs);
    if (invalid) throw Error(ErrorKind::kInternal, *invalid);
    for (const ops::ShardedState& state : sharded) {
      const int64_t whole = state.whole.shape.element_count(1);
      held[state.name] = {
          place.rank * graph::part_shape(state.whole.shape, place.count).element_count(1), whole};
    }
  }

  // What this rank has of a result of one process.
  std::vector<std::byte> part_of(const std::string& name,
                                 const std::vector<std::byte>& whole) const {
    const auto part = held.find(name.substr(name.find('/') + 1));
    if (part == held.end() || !name.starts_with("state/")) return whole;
    std::vector<std::byte> own(results.at(name).size());
    const int64_t begin = part->second.first * std::ssize(whole) / part->second.whole;
    const int64_t there = std::clamp<int64_t>(std::ssize(whole) - begin, 0, std::ssize(own));
    if (there > 0) std::copy_n(whole.begin() + begin, there, own.begin());
    return own;
  }

  void run(const Question& question, toys::ThreadMeeting& meeting, const graph::RankPlace& place) {
    try {
      const auto backend = two_parts(question.backend);
      graph::ProgramSet programs = fused_network(question, *backend);
      for (graph::Program& program : programs.programs) {
        program.graph = ops::insert_rank_sums(program.graph, ops::registry(), program.batch);
        program.share = graph::share_of(program.batch, question.lanes, place);
        program.batch = graph::batch_of(*program.share);
      }
      shard(programs, question, place);
      for (const graph::Program& program : programs.programs) {
        exchanges += static_cast<int>(std::ranges::count_if(
            program.graph.nodes, [](const auto& node) { return node.op->traits().exchanges; }));
        joined += static_cast<int>(std::ranges::count_if(
            program.graph.nodes, [](const auto& node) { return node.op->name() == "rank_sums"; }));
        split += static_cast<int>(std::ranges::count_if(program.graph.nodes, [](const auto& node) {
          return node.attributes.has(graph::kWaits);
        }));
      }
      // Every rank within a limit of its own.
      plan::PlanOptions options;
      options.max_steps = 2000;
      options.gap = Bytes(64);
      plan::PlanOutcome outcome = plan::make_plan(programs, backend->catalog(), options);
      if ((place.rank + static_cast<int>(question.seed)) % 2 == 1) {
        options.arena_limit = outcome.smallest;
        outcome = plan::make_plan(programs, backend->catalog(), options);
      }
      const plan::Plan& chosen = outcome.fits()->plan;
      const plan::Validation valid = plan::validate(chosen, programs, backend->catalog());
      if (!valid.ok()) throw Error(ErrorKind::kInternal, valid.message);
      toys::ThreadRanks ranks(meeting, place.rank, place.count);
      if (question.beside && place.rank % 4 == 1) ranks.start_helper();
      results = run_programs(programs, chosen, *backend, usual_order(programs), {.poison = true},
                             &ranks, held);
      ranks.check();
      sent = ranks.sent();
    } catch (const std::exception& error) {
      wrong = error.what();
    }
  }
};

class RanksOfRandomGraphs : public ::testing::TestWithParam<std::string> {};

TEST_P(RanksOfRandomGraphs, GiveTheBitsOfOneProcess) {
  int shared = 0;
  int sharded = 0;
  int joined = 0;
  int split = 0;
  int refused = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Question question{GetParam(), seed, seed % 3 == 0 ? 4 : 2};
    const auto backend = two_parts(question.backend);
    const graph::ProgramSet alone = fused_network(question, *backend);
    const Results expected = run_programs(alone, plan::naive_plan(alone, backend->catalog()),
                                          *backend, usual_order(alone), {});
    const int most = seed % 2 == 0 ? static_cast<int>(question.lanes) : 2;
    for (int count = 2; count <= most; count *= 2) {
      question.stage = static_cast<int>(seed / 2 + seed) % (ops::kMostShardStage + 1);
      question.beside = seed % 4 < 3;
      if (seed % 5 > 2) question.buckets = {.bucket = 64, .sum = 32};
      toys::ThreadMeeting meeting;
      std::vector<RankRun> runs(static_cast<size_t>(count));
      std::vector<std::thread> threads;
      threads.reserve(runs.size());
      for (int rank = 0; rank < count; ++rank) {
        threads.emplace_back([&, rank] {
          runs[static_cast<size_t>(rank)].run(question, meeting, {rank, count});
        });
      }
      for (std::thread& thread : threads) thread.join();
      if (runs[0].wrong.find("ranks can share") != std::string::npos) {
        ++refused;
        continue;
      }
      // Where one fails, the others wait for it in vain.
      for (const RankRun& run : runs) EXPECT_EQ(run.wrong, "") << "seed " << seed;
      for (const RankRun& run : runs) {
        ASSERT_EQ(run.wrong, "");
        ASSERT_GT(run.exchanges, 0);
        ASSERT_GT(run.sent.bytes, Bytes());
        for (const auto& [name, bytes] : run.results) {
          // Outputs of samples are the rank's own; the first one is the loss.
          if (!name.ends_with("/0") && !name.starts_with("state/")) continue;
          ASSERT_TRUE(bytes == run.part_of(name, expected.at(name)))
              << "seed " << seed << " stage " << question.stage << " " << name;
        }
        sharded += static_cast<int>(run.held.size());
        joined += run.joined;
        split += run.split;
      }
      ++shared;
    }
  }
  EXPECT_GT(shared, 30);
  EXPECT_GT(sharded, 30);
  EXPECT_GT(joined, 50);
  EXPECT_GT(split, 100);
  EXPECT_LT(refused, 10);
}

INSTANTIATE_TEST_SUITE_P(Backends, RanksOfRandomGraphs,
                         ::testing::ValuesIn(backend::computing_backends()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace plimsoll::property
