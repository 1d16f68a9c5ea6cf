// What ranks exchange: sums are added up in one tree, whatever message they go in, and sums that
// can wait for each other share one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "backend/kernel/backends.h"
#include "exec/executor.h"
#include "graph/builder.h"
#include "graph/verify.h"
#include "layers/training/losses.h"
#include "layers/training/programs.h"
#include "ops/fuse/fuse.h"
#include "ops/fuse/rank_messages.h"
#include "ops/registry.h"
#include "plan/search/planner.h"
#include "plan/validate/validator.h"
#include "toys/thread_ranks.h"

namespace plimsoll::property {
namespace {

using layers::Config;

struct Sum {
  DType dtype = DType::kFloat32;
  int64_t count = 0;
  int64_t rows = 0;  // that are merged; 0: it is added

  Shape shape() const {
    return rows == 0 ? Shape({Dim::constant(count)})
                     : Shape({Dim::constant(2), Dim::constant(count / 2)});
  }
};

std::string name_of(size_t sum) { return "sum" + std::to_string(sum); }

// Sums of all ranks take the place of those of each; `one`: in one message.
graph::ProgramSet sums_over_ranks(const std::vector<Sum>& sums, bool one) {
  graph::GraphBuilder builder(ops::registry());
  std::vector<graph::StateId> states;
  std::vector<graph::ValueId> values;
  std::vector<int64_t> rows;
  for (size_t i = 0; i < sums.size(); ++i) {
    states.push_back(builder.state({.name = name_of(i), .type = {sums[i].dtype, sums[i].shape()}}));
    values.push_back(builder.read(states.back()));
    rows.push_back(sums[i].rows);
  }
  if (one) {
    const graph::NodeId bucket =
        builder.add("rank_sums", "bucket", values, {{"rows_per_sample", rows}});
    values = builder.graph().node(bucket).outputs;
  } else {
    graph::ValueId last;
    for (size_t i = 0; i < sums.size(); ++i) {
      std::vector<graph::ValueId> inputs = {values[i]};
      if (last.valid()) inputs.push_back(last);
      const graph::NodeId sum =
          builder.add("rank_sum", "one", inputs, {{"rows_per_sample", rows[i]}});
      values[i] = builder.graph().node(sum).outputs[0];
      last = builder.graph().node(sum).outputs[1];
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) builder.write(states[i], values[i]);
  graph::ProgramSet programs;
  programs.programs.push_back({"exchange", builder.finish(), 1, 1, {}});
  return programs;
}

using Values = std::vector<std::vector<std::byte>>;  // by sum

// Numbers whose sum depends on the order in which they are added.
Values draw(const std::vector<Sum>& sums, int rank) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) + 1);
  std::normal_distribution<double> normal;
  Values values;
  for (const Sum& sum : sums) {
    std::vector<std::byte> bytes(tensor_bytes(sum.dtype, sum.shape(), 1).size());
    for (int64_t i = 0; i < sum.count; ++i) {
      const double drawn = normal(random) * (random() % 2 == 0 ? 1 : 1000);
      const double value = i >= sum.count / 2 && sum.rows > 0 ? drawn * drawn : drawn;
      const auto put = [&](auto number) {
        std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(number), &number,
                    sizeof(number));
      };
      if (sum.dtype == DType::kFloat32) put(static_cast<float>(value));
      if (sum.dtype == DType::kFloat64) put(value);
      if (sum.dtype == DType::kInt64) put(static_cast<int64_t>(value));
    }
    values.push_back(std::move(bytes));
  }
  return values;
}

template <typename T>
void add(std::vector<std::byte>& to, const std::vector<std::byte>& from) {
  for (size_t at = 0; at < to.size(); at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, to.data() + at, sizeof(T));
    std::memcpy(&b, from.data() + at, sizeof(T));
    a += b;
    std::memcpy(to.data() + at, &a, sizeof(T));
  }
}

// The balanced tree over ranks [first, first + count).
std::vector<std::byte> tree(const std::vector<Values>& all, const Sum& sum, size_t index,
                            size_t first, size_t count) {
  if (count == 1) return all[first][index];
  std::vector<std::byte> lower = tree(all, sum, index, first, count / 2);
  const std::vector<std::byte> upper = tree(all, sum, index, first + count / 2, count / 2);
  if (sum.dtype == DType::kFloat32) add<float>(lower, upper);
  if (sum.dtype == DType::kFloat64) add<double>(lower, upper);
  if (sum.dtype == DType::kInt64) add<int64_t>(lower, upper);
  return lower;
}

// What all ranks have after the exchange, by rank, and how many messages each one sent.
std::vector<Values> exchange(const std::vector<Sum>& sums, const std::vector<Values>& drawn,
                             bool one, int64_t& messages) {
  const auto backend = backend::make_backend("reference", {.threads = 1});
  const graph::ProgramSet programs = sums_over_ranks(sums, one);
  const plan::Plan plan =
      plan::make_plan(programs, backend->catalog(), {.gap = Bytes()}).fits()->plan;
  toys::ThreadMeeting meeting;
  std::vector<Values> results(drawn.size());
  std::vector<int64_t> sent(drawn.size());
  std::vector<std::thread> threads;
  const auto count = static_cast<int>(drawn.size());
  threads.reserve(drawn.size());
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      const auto own = backend::make_backend("reference", {.threads = 1});
      const auto at = static_cast<size_t>(rank);
      exec::Executor executor(programs, plan, *own);
      for (size_t i = 0; i < sums.size(); ++i) {
        executor.write_state(name_of(i), 0, drawn[at][i]);
      }
      toys::ThreadRanks ranks(meeting, rank, count);
      backend::StepContext context{.ranks = &ranks, .samples = count, .first_sample = rank};
      context.samples_each = 1;
      executor.run(0, context, nullptr, nullptr);
      for (size_t i = 0; i < sums.size(); ++i) {
        results[at].emplace_back(drawn[at][i].size());
        executor.read_state(name_of(i), 0, results[at].back());
      }
      sent[at] = ranks.sent().messages;
    });
  }
  for (std::thread& thread : threads) thread.join();
  messages = *std::ranges::max_element(sent);
  return results;
}

void expect_tree(const std::vector<Sum>& sums, int count) {
  SCOPED_TRACE(count);
  std::vector<Values> drawn;
  drawn.reserve(static_cast<size_t>(count));
  for (int rank = 0; rank < count; ++rank) drawn.push_back(draw(sums, rank));
  int64_t alone = 0;
  int64_t together = 0;
  const std::vector<Values> each = exchange(sums, drawn, false, alone);
  const std::vector<Values> one = exchange(sums, drawn, true, together);
  EXPECT_LT(together, alone);
  for (int rank = 0; rank < count; ++rank) {
    const auto at = static_cast<size_t>(rank);
    for (size_t i = 0; i < sums.size(); ++i) {
      EXPECT_TRUE(each[at][i] == one[at][i]) << "rank " << rank << " sum " << i;
      if (sums[i].rows > 0) continue;
      EXPECT_TRUE(each[at][i] == tree(drawn, sums[i], i, 0, drawn.size()))
          << "rank " << rank << " sum " << i;
    }
  }
}

TEST(Exchanges, SumsAreAddedUpInOneTree) {
  for (const int ranks : {2, 4, 8}) {
    // A message that goes whole, and one that goes in halves between other sums than it begins at.
    expect_tree({{.count = 3}, {DType::kInt64, 7}, {.count = 5}, {DType::kFloat64, 9}}, ranks);
    expect_tree({{.count = 3}, {DType::kFloat64, 1001}, {.count = 40001}, {DType::kInt64, 7}},
                ranks);
  }
}

TEST(Exchanges, LongSumsGoPieceByPiece) { expect_tree({{.count = 2'500'001}, {.count = 1}}, 4); }

TEST(Exchanges, MomentsAreMergedBesideOtherSums) {
  for (const int ranks : {2, 4}) {
    expect_tree({{.count = 12, .rows = 6}, {.count = 5}, {.count = 30, .rows = 4}}, ranks);
  }
}

// The training step of one of two ranks, and its nodes that exchange.
graph::Graph shared_step(const layers::Model& model, const ops::BucketSizes& sizes) {
  layers::CompileOptions compile;
  compile.optimizer = layers::parse_optimizer("adam");
  compile.losses = {layers::parse_loss("SparseCategoricalCrossentropy")};
  compile.metrics = {{Config("accuracy")}};
  const graph::ProgramSet all = layers::build_programs(model, compile, {.train = 8}).set;
  const auto train = std::ranges::find(all.programs, "train", &graph::Program::name);
  graph::Graph graph = ops::insert_rank_sums(train->graph, ops::registry(), train->batch);
  graph = ops::join_rank_sums(graph, ops::registry(), sizes);
  EXPECT_EQ(graph::verify(graph).value_or(""), "");
  return graph;
}

std::vector<graph::Node> exchanges_of(const graph::Graph& graph) {
  std::vector<graph::Node> found;
  for (const graph::Node& node : graph.nodes) {
    if (node.op->traits().exchanges) found.push_back(node);
  }
  return found;
}

layers::Model dense_network(int layers, int64_t units, bool normalized) {
  layers::Model model("network", layers::ModelKind::kSequential);
  model.add_input(Config::Object{{"batch_shape", Config::Array{Config(), units}}});
  for (int i = 0; i < layers; ++i) {
    model.append("Dense", Config::Object{{"units", units}});
    if (normalized) model.append("BatchNormalization", Config::Object{});
  }
  model.append("Dense", Config::Object{{"units", 10}, {"activation", "softmax"}});
  return model;
}

TEST(Buckets, ManySmallGradientsGoInFewMessages) {
  const layers::Model model = dense_network(20, 32, false);
  const std::vector<graph::Node> alone = exchanges_of(shared_step(model, {.bucket = 0, .sum = 0}));
  EXPECT_GT(alone.size(), 40u);
  // 21 layers of 4 KiB each and less, and the loss's divisor, which cannot wait for them.
  EXPECT_LE(exchanges_of(shared_step(model, {})).size(), 2u);
  const graph::Graph small = shared_step(model, {.bucket = 32 << 10, .sum = 64 << 10});
  EXPECT_LE(exchanges_of(small).size(), 5u);
  for (const graph::Node& node : exchanges_of(small)) {
    int64_t bytes = 0;
    for (graph::ValueId input : node.inputs) {
      bytes +=
          tensor_bytes(small.value(input).type.dtype, small.value(input).type.shape, 1).count();
    }
    EXPECT_LE(bytes, (32 << 10) + 4);  // and the number of the exchange before
  }
}

TEST(Buckets, LargeSumsGoAlone) {
  const graph::Graph graph =
      shared_step(dense_network(2, 200, false), {.bucket = 256 << 10, .sum = 64 << 10});
  int alone = 0;
  for (const graph::Node& node : exchanges_of(graph)) {
    const graph::ValueType& type = graph.value(node.inputs[0]).type;
    if (tensor_bytes(type.dtype, type.shape, 1) <= Bytes(64 << 10)) continue;
    EXPECT_EQ(node.op->name(), "rank_sum");
    ++alone;
  }
  EXPECT_EQ(alone, 2);
}

// Statistics are exchanged where they are needed: forward and backward, once a layer each. What
// waits by then goes with them.
TEST(Buckets, StatisticsDoNotWait) {
  const graph::Graph graph = shared_step(dense_network(4, 16, true), {});
  EXPECT_LE(exchanges_of(graph).size(), 2u * 4 + 2);
}

TEST(Buckets, ExchangesStayInOneOrder) {
  const graph::Graph graph = shared_step(dense_network(4, 16, true), {.bucket = 4096, .sum = 2048});
  graph::ValueId last;
  for (const graph::Node& node : exchanges_of(graph)) {
    if (last.valid()) {
      EXPECT_EQ(node.inputs.back(), last) << node.name;
    }
    last = node.outputs.back();
  }
}

// Sums under way: the same exchanges in the same order, each waited for when the next has begun.
TEST(Buckets, SumsThatGoOnBesideAreTheSame) {
  const graph::Graph plain =
      shared_step(dense_network(6, 16, false), {.bucket = 2048, .sum = 2048});
  const graph::Graph split = ops::split_rank_sums(plain, ops::registry());
  ASSERT_EQ(graph::verify(split).value_or(""), "");
  const std::vector<graph::Node> expected = exchanges_of(plain);
  size_t at = 0;
  int begun = 0;
  int waited = 0;
  for (const graph::Node& node : exchanges_of(split)) {
    if (node.attributes.has(graph::kWaits)) {
      ++waited;
      continue;
    }
    begun += node.attributes.has(graph::kUnderWay) ? 1 : 0;
    ASSERT_LT(at, expected.size());
    EXPECT_EQ(plain.value(expected[at].inputs[0]).type, split.value(node.inputs[0]).type);
    EXPECT_EQ(plain.value(expected[at].inputs[0]).name, split.value(node.inputs[0]).name);
    ++at;
  }
  EXPECT_EQ(at, expected.size());
  EXPECT_EQ(begun, waited);
  EXPECT_GE(begun, 4);
}

TEST(Beside, NobodyReadsWhatIsUnderWay) {
  graph::GraphBuilder builder(ops::registry());
  const graph::ValueType type{DType::kFloat32, {Dim::constant(4)}};
  const graph::StateId state = builder.state({.name = "sum", .type = type});
  const graph::NodeId begun =
      builder.add("rank_sum_begin", "begun", {builder.read(state)},
                  {{"rows_per_sample", std::vector<int64_t>{0}}, {graph::kUnderWay, true}});
  const std::vector<graph::ValueId> made = builder.graph().node(begun).outputs;
  const graph::NodeId ended =
      builder.add("rank_sum_end", "ended", made,
                  {{"rows_per_sample", std::vector<int64_t>{0}}, {graph::kWaits, true}});
  const graph::ValueId sum = builder.graph().node(ended).outputs[0];
  graph::Graph early = builder.graph();
  const auto verdict = [](graph::GraphBuilder& each, graph::ValueId read) {
    each.write(graph::StateId(0), each.call("accumulate", "twice", {read, read}));
    graph::ProgramSet programs;
    programs.programs.push_back({"exchange", each.finish(), 1, 1, {}});
    const auto backend = backend::make_backend("reference", {.threads = 1});
    const plan::Plan plan = plan::naive_plan(programs, backend->catalog());
    return plan::validate(plan, programs, backend->catalog()).verdict;
  };
  EXPECT_EQ(verdict(builder, sum), plan::Verdict::kValid);
  graph::GraphBuilder other(ops::registry(), std::move(early));
  EXPECT_EQ(verdict(other, made[0]), plan::Verdict::kMissingWait);
}

}  // namespace
}  // namespace plimsoll::property
