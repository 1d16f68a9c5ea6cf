#include <map>

#include "base/error.h"
#include "base/format.h"
#include "ops/fuse/fuse.h"
#include "ops/fuse/rewrite.h"

namespace plimsoll::ops {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// A name that no node and no value has.
std::string free_name(const Graph& graph, const std::string& wish) {
  std::string name = wish;
  for (int i = 1; find_value(graph, name).valid() || find_node(graph, name).valid(); ++i) {
    name = fmt::format("{}_{}", wish, i);
  }
  return name;
}

class Packer {
 public:
  explicit Packer(const PackOffers& offers) : offers_(offers) {}

  void visit(Replay& replay, NodeId id) {
    const graph::Node& node = replay.source().node(id);
    std::vector<ValueId> inputs = replay.mapped(node.inputs);
    for (const PackOffer& offer : offers_(replay.source(), id)) {
      const auto at = static_cast<size_t>(offer.input);
      PLIMSOLL_CHECK(at < inputs.size(), "a pack is offered for an operand that is not there");
      inputs[at] = packed(replay, node, node.inputs[at], offer);
    }
    replay.copy(id, std::move(inputs));
  }

 private:
  ValueId packed(Replay& replay, const graph::Node& node, ValueId plain, const PackOffer& offer) {
    auto [known, added] = packs_.try_emplace({plain, offer.layout});
    if (!added) return known->second;
    graph::GraphBuilder& builder = replay.builder();
    builder.set_layer(node.layer);
    builder.set_stage(node.stage);
    const std::string wish = replay.source().value(plain).name + "/pack";
    known->second = builder.call("pack", free_name(replay.source(), wish), {replay.mapped(plain)},
                                 {{"layout", offer.layout}, {"bytes", offer.bytes.count()}});
    return known->second;
  }

  const PackOffers& offers_;
  std::map<std::pair<ValueId, std::string>, ValueId> packs_;
};

}  // namespace

Graph insert_packs(const Graph& graph, const graph::OpRegistry& registry,
                   const PackOffers& offers) {
  Packer packer(offers);
  return Replay(graph, registry).run([&](Replay& replay, NodeId id) { packer.visit(replay, id); });
}

}  // namespace plimsoll::ops
