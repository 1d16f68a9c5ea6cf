#include "plan/search/phase_model.h"

#include <algorithm>
#include <map>
#include <optional>

#include "plan/core/walk.h"
#include "plan/facts/estimate.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;
using graph::ValueKind;

constexpr double kNanoseconds = 1e9;

class ModelMaker {
 public:
  ModelMaker(const Occupied& tree, ProgramFacts& facts, const Dependencies& dependencies,
             const PhaseOptions& options)
      : tree_(tree.plan),
        buffers_(tree.buffers),
        facts_(facts),
        graph_(facts.graph()),
        dependencies_(dependencies),
        options_(options),
        item_seconds_(estimate_items(tree_, facts)),
        seconds_(graph_.nodes.size()),
        place_of_node_(graph_.nodes.size(), -1),
        made_(graph_.values.size(), -1),
        index_(graph_.values.size(), -1) {}

  PhaseModel make() {
    find_places();
    find_values();
    find_fixed();
    return std::move(model_);
  }

 private:
  // Loops of the root, its calls that make rows, and what stands between them.
  void find_places() {
    const std::vector<Interval> roots = number_root_items(tree_);
    size_t root = 0;
    bool joins = false;
    walk_items(tree_, [&](const Item& item, int64_t number, LoopId around) {
      while (number >= roots[root].end) ++root;
      const auto* call = std::get_if<Call>(&item);
      const bool alone = around.valid() || (call != nullptr && makes_rows(call->node));
      const bool known =
          !model_.places.empty() && model_.places.back().numbers.end > roots[root].begin;
      if (!known && (alone || !joins)) {
        model_.places.push_back({roots[root], NodeId(), around.valid()});
      } else {
        model_.places.back().numbers.end = roots[root].end;
      }
      joins = !alone;
      note_item(item, number);
    });
  }

  bool makes_rows(NodeId node) const {
    return std::ranges::any_of(graph_.node(node).outputs, [&](ValueId output) {
      return graph_.value(output).type.shape.has_batch();
    });
  }

  void note_item(const Item& item, int64_t number) {
    const int here = static_cast<int>(model_.places.size()) - 1;
    if (const auto* feed = std::get_if<Feed>(&item)) {
      int& made = made_[tree_.instances[feed->target.index()].value.index()];
      if (made < 0) made = here;
    }
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr) return;
    if (!model_.places.back().anchor.valid()) model_.places.back().anchor = call->node;
    place_of_node_[call->node.index()] = here;
    seconds_[call->node.index()] = item_seconds_[static_cast<size_t>(number)];
    for (InstanceId id : call->outputs) {
      if (id.valid()) made_[tree_.instances[id.index()].value.index()] = here;
    }
  }

  void find_values() {
    for (const graph::ValueId value : graph_.inputs) add_value(value);
    for (NodeId node : dependencies_.order) {
      for (ValueId output : graph_.node(node).outputs) add_value(output);
    }
  }

  void add_value(ValueId id) {
    const bool repeatable = dependencies_.repeatable[id.index()];
    const bool carried = is_carried(facts_, dependencies_, id);
    if (made_[id.index()] < 0 || !(repeatable || carried)) return;
    const graph::Value& value = graph_.value(id);
    PhaseModel::Value entry;
    entry.id = id;
    entry.made = made_[id.index()];
    entry.bytes = instance_bytes(value.type, "", value.type.shape.at(facts_.batch())).count();
    entry.sliced = carried;
    entry.latest = repeatable ? find_latest(value) : -1;
    double seconds = 0;
    if (value.kind == ValueKind::kNode) {
      const graph::Node& node = graph_.node(value.producer);
      entry.cheap = node.op->traits().cheap;
      seconds = seconds_[value.producer.index()];
      for (ValueId input : node.inputs) {
        const int operand = index_[input.index()];
        if (operand >= 0 && std::ranges::find(entry.operands, operand) == entry.operands.end()) {
          entry.operands.push_back(operand);
        }
      }
    } else {
      seconds = facts_.catalog().copy_seconds(Bytes(entry.bytes));
    }
    entry.nanoseconds = static_cast<int64_t>(kNanoseconds * seconds);
    find_readers(entry);
    index_[id.index()] = static_cast<int>(model_.values.size());
    model_.values.push_back(std::move(entry));
  }

  // Not once a state variable that it is made from is overwritten.
  int find_latest(const graph::Value& value) const {
    int latest = static_cast<int>(model_.places.size()) - 1;
    if (value.kind != ValueKind::kNode) return options_.reread ? latest : -1;
    for (ValueId input : graph_.node(value.producer).inputs) {
      if (graph_.value(input).kind != ValueKind::kState) continue;
      const graph::StateVariable& state = graph_.state(graph_.value(input).state);
      if (!state.write.valid()) continue;
      const ValueId update = dependencies_.updates[graph_.value(input).state.index()];
      const NodeId first = update.valid() ? graph_.value(update).producer : state.write;
      latest = std::min(
          {latest, place_of_node_[first.index()] - 1, place_of_node_[state.write.index()] - 1});
    }
    return latest;
  }

  void find_readers(PhaseModel::Value& entry) const {
    std::map<int, int> readers;
    std::map<int, int> with_form;
    const ValueId id = entry.id;
    for (NodeId user : facts_.users()[id.index()]) {
      const std::vector<ValueId>& inputs = graph_.node(user).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] != id) continue;
        const int place = place_of_node_[user.index()];
        ++readers[place];
        const bool asked = options_.forms && entry.sliced;
        const std::string form = asked ? smallest_form(facts_, user, i) : "";
        if (form.empty() || place == entry.made) continue;
        if (!entry.form.empty() && form != entry.form) continue;
        entry.form = form;
        ++with_form[place];
      }
    }
    for (const auto& [place, count] : readers) entry.readers.push_back({place, count});
    for (const auto& [place, count] : with_form) entry.form_readers.push_back({place, count});
    if (entry.form.empty()) return;
    const graph::ValueType& type = graph_.value(id).type;
    entry.form_bytes = instance_bytes(type, entry.form, type.shape.at(facts_.batch())).count();
    entry.form_nanoseconds =
        static_cast<int64_t>(kNanoseconds * facts_.catalog().copy_seconds(Bytes(entry.bytes)));
  }

  // What lives across places is the values' own.
  void find_fixed() {
    std::vector<Buffer> fixed;
    for (const Buffer& buffer : buffers_) {
      const auto is_chosen = [&](InstanceId id) {
        const Instance& instance = tree_.instances[id.index()];
        return !instance.scope.valid() && index_[instance.value.index()] >= 0;
      };
      if (std::ranges::none_of(buffer.instances, is_chosen)) fixed.push_back(buffer);
    }
    model_.fixed = find_place_maxima(fixed);
  }

  std::vector<int64_t> find_place_maxima(const std::vector<Buffer>& buffers) const {
    std::vector<int64_t> most;
    const std::vector<int64_t> profile = find_profile(buffers);
    for (const PhaseModel::Place& place : model_.places) {
      int64_t here = 0;
      const int64_t end = std::min(place.numbers.end, std::ssize(profile));
      for (int64_t i = place.numbers.begin; i < end; ++i) {
        here = std::max(here, profile[static_cast<size_t>(i)]);
      }
      most.push_back(here);
    }
    return most;
  }

  const ProgramPlan& tree_;
  const std::vector<Buffer>& buffers_;
  ProgramFacts& facts_;
  const graph::Graph& graph_;
  const Dependencies& dependencies_;
  PhaseOptions options_;
  std::vector<double> item_seconds_;  // per number
  std::vector<double> seconds_;       // per node
  std::vector<int> place_of_node_;
  std::vector<int> made_;   // per value: its place; −1: nowhere in the tree
  std::vector<int> index_;  // per value: its place in the model; −1: not there
  PhaseModel model_;
};

}  // namespace

PhaseModel make_phase_model(const Occupied& tree, ProgramFacts& facts,
                            const Dependencies& dependencies, const PhaseOptions& options) {
  return ModelMaker(tree, facts, dependencies, options).make();
}

std::vector<int64_t> find_place_loads(const PhaseModel& model, const Occupied& plan) {
  // A place begins with the item of the root that holds its first call: clones in front of that
  // count as of the place before.
  const std::vector<Interval> roots = number_root_items(plan.plan);
  std::map<graph::NodeId, size_t> anchors;
  for (size_t p = 0; p < model.places.size(); ++p) anchors.try_emplace(model.places[p].anchor, p);
  std::vector<int64_t> begins(model.places.size() + 1, -1);
  begins.back() = roots.empty() ? 0 : roots.back().end;
  size_t root = 0;
  walk_items(plan.plan, [&](const Item& item, int64_t number, LoopId) {
    while (number >= roots[root].end) ++root;
    const auto* call = std::get_if<Call>(&item);
    if (call == nullptr || call->clone > 0) return;
    const auto found = anchors.find(call->node);
    if (found != anchors.end()) begins[found->second] = roots[root].begin;
  });
  for (size_t p = model.places.size(); p-- > 0;) {
    if (begins[p] < 0) begins[p] = begins[p + 1];
  }
  std::vector<int64_t> loads;
  const std::vector<int64_t> profile = find_profile(plan.buffers);
  for (size_t p = 0; p < model.places.size(); ++p) {
    int64_t most = 0;
    for (int64_t i = begins[p]; i < std::min(begins[p + 1], std::ssize(profile)); ++i) {
      most = std::max(most, profile[static_cast<size_t>(i)]);
    }
    loads.push_back(most);
  }
  return loads;
}

}  // namespace plimsoll::plan
