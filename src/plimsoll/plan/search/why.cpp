#include "plan/search/why.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/suggest.h"
#include "plan/core/extents.h"
#include "plan/core/walk.h"
#include "plan/facts/estimate.h"
#include "plan/facts/liveness.h"

namespace plimsoll::plan {
namespace {

std::string layer_of(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  if (value.kind == graph::ValueKind::kInput) return value.name;
  if (value.kind == graph::ValueKind::kState) return graph.state(value.state).layer;
  return graph.node(value.producer).layer;
}

void check_layer(const graph::Graph& graph, std::string_view layer) {
  std::vector<std::string> known;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    std::string name = layer_of(graph, graph::ValueId(v));
    if (!name.empty() && std::ranges::find(known, name) == known.end()) {
      known.push_back(std::move(name));
    }
  }
  if (std::ranges::find(known, layer) != known.end()) return;
  throw Error(ErrorKind::kConfig, "--why: expected a layer that the step computes, received \"" +
                                      std::string(layer) + "\"." + did_you_mean(layer, known));
}

// What happens to values in one program's plan.
class Account {
 public:
  Account(const ProgramPlan& plan, const graph::Program& program,
          const graph::KernelCatalog& catalog)
      : plan_(plan), facts_(program, catalog), lives_(find_lives(plan)) {
    const std::vector<Buffer> buffers = find_buffers(plan);
    (void)find_load(buffers, {0, std::numeric_limits<int64_t>::max()}, &peak_);
    for (const Buffer& buffer : buffers) note_peak(buffer);
    const std::vector<double> seconds = estimate_items(plan, facts_);
    walk_items(plan, [&](const Item& item, int64_t number, LoopId) {
      note_item(item, seconds[static_cast<size_t>(number)]);
    });
  }

  ValueStory tell(graph::ValueId id) const {
    const graph::Graph& graph = facts_.graph();
    const graph::Value& value = graph.value(id);
    ValueStory story;
    story.value = value.name;
    story.whole = instance_bytes(value.type, "", value.type.shape.at(facts_.batch()));
    if (const auto found = at_peak_.find(id); found != at_peak_.end())
      story.at_peak = found->second;
    if (const auto found = costs_.find(id); found != costs_.end()) story.seconds = found->second;
    Interval span{std::numeric_limits<int64_t>::max(), 0};
    describe(id, story, span);
    const bool across = span.begin <= peak_ && peak_ < span.end;
    if (across && story.at_peak < story.whole) story.saved = story.whole - story.at_peak;
    return story;
  }

 private:
  // Bytes go to the value that is alive then, of several that take each other over.
  void note_peak(const Buffer& buffer) {
    if (peak_ < buffer.live.begin || peak_ >= buffer.live.end || buffer.instances.empty()) return;
    InstanceId holder = buffer.instances.front();
    for (InstanceId id : buffer.instances) {
      const Interval& life = lives_[id.index()];
      if (life.begin <= peak_ && peak_ < life.end) holder = id;
    }
    at_peak_[plan_.instances[holder.index()].value] += buffer.bytes;
  }

  graph::ValueId value_of(InstanceId id) const { return plan_.instances[id.index()].value; }

  void note_item(const Item& item, double seconds) {
    if (const auto* call = std::get_if<Call>(&item)) {
      if (call->clone == 0) return;
      for (InstanceId id : call->outputs) {
        if (!id.valid()) continue;
        costs_[value_of(id)] += seconds;
        again_[value_of(id)] = true;
      }
    } else if (const auto* feed = std::get_if<Feed>(&item)) {
      const graph::ValueId value = value_of(feed->target);
      if (fed_[value]++ == 0) return;
      costs_[value] += seconds;
    } else if (const auto* encode = std::get_if<Encode>(&item)) {
      costs_[value_of(encode->source)] += seconds;
    } else if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
      costs_[value_of(begin->source)] += seconds;
    }
  }

  void describe(graph::ValueId id, ValueStory& story, Interval& span) const {
    const auto add = [&](const std::string& what) {
      if (std::ranges::find(story.treatment, what) == story.treatment.end()) {
        story.treatment.push_back(what);
      }
    };
    for (size_t i = 0; i < plan_.instances.size(); ++i) {
      const Instance& instance = plan_.instances[i];
      if (instance.value != id || lives_[i].size() == 0) continue;
      span = {std::min(span.begin, lives_[i].begin), std::max(span.end, lives_[i].end)};
      if (instance.space == Space::kSpill) {
        add("moved to the spill file");
      } else if (!instance.form.empty()) {
        add("as " + instance.form);
      } else if (instance.bytes < story.whole) {
        add("in slices");
      }
      if (instance.in_place.valid()) add("in place");
    }
    if (again_.contains(id)) add("computed again");
    if (const auto fed = fed_.find(id); fed != fed_.end() && fed->second > 1) add("read again");
    if (story.treatment.empty() && span.end > 0) add("kept");
  }

  const ProgramPlan& plan_;
  mutable ProgramFacts facts_;
  std::vector<Interval> lives_;
  int64_t peak_ = -1;
  std::map<graph::ValueId, Bytes> at_peak_;
  std::map<graph::ValueId, double> costs_;
  std::map<graph::ValueId, bool> again_;
  std::map<graph::ValueId, int> fed_;
};

}  // namespace

std::vector<ValueStory> explain_layer(const Plan& plan, const graph::ProgramSet& programs,
                                      const graph::KernelCatalog& catalog, std::string_view layer) {
  const graph::Program& program = programs.programs.front();
  const graph::Graph& graph = program.graph;
  check_layer(graph, layer);
  const Account account(plan.programs.front(), program, catalog);
  std::vector<ValueStory> stories;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const graph::ValueId id(v);
    if (layer_of(graph, id) != layer) continue;
    ValueStory story = account.tell(id);
    if (graph.value(id).kind == graph::ValueKind::kState) {
      // The variable's own memory, which is no buffer.
      const auto placed = std::ranges::find(plan.states, graph.state(graph.value(id).state).name,
                                            &StatePlacement::name);
      PLIMSOLL_CHECK(placed != plan.states.end(), "every state of the set has a place");
      if (placed->space == Space::kState) story.at_peak = story.whole;
      story.saved = story.at_peak < story.whole ? story.whole - story.at_peak : Bytes();
    }
    if (!story.treatment.empty()) stories.push_back(std::move(story));
  }
  return stories;
}

}  // namespace plimsoll::plan
