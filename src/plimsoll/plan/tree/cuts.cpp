#include "plan/tree/cuts.h"

#include <algorithm>
#include <map>

#include "graph/rank_message.h"
#include "plan/core/tree_editor.h"
#include "plan/tree/complete.h"

namespace plimsoll::plan {
namespace {

using graph::NodeId;
using graph::ValueId;
using graph::ValueKind;
using Index = TreeEditor::Index;

bool accepts(const ProgramFacts& facts, NodeId node, size_t input, const std::string& form) {
  const std::vector<std::string>& forms = facts.saved_forms(node, input);
  return std::ranges::find(forms, form) != forms.end();
}

class CutMaker {
 public:
  CutMaker(const std::vector<Cut>& cuts, const ProgramFacts& facts,
           const Dependencies& dependencies, ProgramPlan& plan)
      : facts_(facts),
        graph_(facts.graph()),
        dependencies_(dependencies),
        plan_(plan),
        editor_(plan),
        uses_(graph_.values.size()),
        calls_(graph_.nodes.size(), -1),
        makers_(plan.instances.size(), -1) {
    for (const Cut& cut : cuts) cuts_[cut.value].push_back(cut);
    for (size_t i = 0; i < editor_.size(); ++i) index_item(static_cast<Index>(i));
    for (size_t i = 0; i < plan.instances.size(); ++i) {
      int& copies = copies_[plan.instances[i].value];
      if (plan.instances[i].copy < kOutputCopies) {
        copies = std::max(copies, plan.instances[i].copy);
      }
    }
  }

  void run() {
    const std::vector<NodeId>& order = dependencies_.order;
    for (auto node = order.rbegin(); node != order.rend(); ++node) cut_outputs(*node);
    for (const auto& [value, cuts] : cuts_) {
      if (graph_.value(value).kind == ValueKind::kInput) cut_input(value);
    }
    editor_.write_back(plan_);
  }

 private:
  struct Use {
    Index item = -1;
    int operand = -1;  // −1: an output item
  };
  // Readers of one output that want another copy from an anchor on.
  struct Request {
    ValueId value;
    int64_t anchor = 0;  // its key
    std::vector<Use> uses;
    CutKind kind = CutKind::kRecompute;
  };
  struct Clone {
    Index item = -1;
    int number = 0;
  };

  // Copies of inputs that are handed out have numbers of their own.
  static constexpr int kOutputCopies = 1 << 20;

  void index_item(Index index) {
    const Item& item = editor_.entry(index).item;
    if (const auto* call = std::get_if<Call>(&item)) {
      calls_[call->node.index()] = index;
      for (size_t i = 0; i < call->inputs.size(); ++i) {
        uses_[value_of(call->inputs[i])].push_back({index, static_cast<int>(i)});
      }
      for (InstanceId id : call->outputs) {
        if (id.valid()) makers_[id.index()] = index;
      }
    } else if (const auto* feed = std::get_if<Feed>(&item)) {
      makers_[feed->target.index()] = index;
    } else if (const auto* output = std::get_if<Output>(&item)) {
      uses_[value_of(output->source)].push_back({index, -1});
    } else if (const auto* begin = std::get_if<BeginTransfer>(&item)) {
      makers_[begin->target.index()] = index;
      loaded_from_[begin->target] = begin->source;
      transfers_ = std::max(transfers_, begin->number + 1);
    }
  }

  size_t value_of(InstanceId id) const { return plan_.instances[id.index()].value.index(); }
  // Where a reader stands. A clone reads for the one that it was made for: it comes after the
  // anchor like that, though its place is before.
  int64_t reading_key(Index item) const {
    const auto clone = anchors_of_clones_.find(item);
    const int64_t place = editor_.key(item);
    return clone == anchors_of_clones_.end() ? place : std::max(place, clone->second);
  }
  int64_t key(const Use& use) const { return reading_key(use.item); }
  int64_t place(const Use& use) const { return editor_.key(use.item); }
  int64_t anchor_key(const Cut& cut) const { return editor_.key(calls_[cut.anchor.index()]); }

  InstanceId read_by(const Use& use) const {
    const Item& item = editor_.entry(use.item).item;
    if (use.operand < 0) return std::get<Output>(item).source;
    return std::get<Call>(item).inputs[static_cast<size_t>(use.operand)];
  }
  void redirect(const Use& use, InstanceId to) {
    Item& item = editor_.item(use.item);
    if (use.operand < 0) {
      std::get<Output>(item).source = to;
    } else {
      std::get<Call>(item).inputs[static_cast<size_t>(use.operand)] = to;
    }
  }

  InstanceId add_instance(ValueId value, int copy, const std::string& form) {
    Instance instance;
    instance.value = value;
    instance.copy = copy;
    instance.form = form;
    instance.scope = kAutoScope;
    plan_.instances.push_back(std::move(instance));
    makers_.push_back(-1);
    return InstanceId(plan_.instances.size() - 1);
  }

  std::vector<Use> sorted_uses(ValueId value) const {
    std::vector<Use> uses = uses_[value.index()];
    std::ranges::sort(uses, [&](const Use& a, const Use& b) {
      return key(a) != key(b) ? key(a) < key(b) : a.operand < b.operand;
    });
    return uses;
  }

  const std::vector<Cut>* cuts_of(ValueId value) const {
    const auto found = cuts_.find(value);
    return found == cuts_.end() ? nullptr : &found->second;
  }

  void cut_outputs(NodeId node) {
    std::vector<Request> requests;
    for (ValueId output : graph_.node(node).outputs) {
      const std::vector<Cut>* cuts = cuts_of(output);
      if (cuts == nullptr || calls_[node.index()] < 0) continue;
      std::vector<Use> uses = sorted_uses(output);
      if (uses.empty()) continue;
      encode(*cuts, output, uses);
      add_requests(*cuts, output, uses, requests);
    }
    std::ranges::stable_sort(requests, {},
                             [&](const Request& request) { return place(request.uses.front()); });
    std::vector<Clone> clones;
    for (const Request& request : requests) serve(node, request, clones);
  }

  // Lets the readers that accept the form read it, and takes them out of `uses`.
  void encode(const std::vector<Cut>& cuts, ValueId value, std::vector<Use>& uses) {
    const auto cut = std::ranges::find(cuts, CutKind::kForm, &Cut::kind);
    if (cut == cuts.end() || !is_carried(facts_, dependencies_, value)) return;
    const InstanceId plain = read_by(uses.front());
    const Index maker = makers_[plain.index()];
    const int64_t from = anchor_key(*cut);
    if (maker < 0 || editor_.key(maker) >= from) return;
    std::vector<Use> served;
    for (const Use& use : uses) {
      if (place(use) < from || use.operand < 0) continue;
      const NodeId node = std::get<Call>(editor_.entry(use.item).item).node;
      if (accepts(facts_, node, static_cast<size_t>(use.operand), cut->form)) served.push_back(use);
    }
    if (served.empty()) return;
    const LoopId body = editor_.entry(maker).body;
    Index after = maker;
    for (const Use& use : uses) {
      if (place(use) < from && editor_.entry(use.item).body == body) after = use.item;
    }
    const InstanceId encoded = add_instance(value, plan_.instances[plain.index()].copy, cut->form);
    editor_.insert_after(after, Encode{plain, encoded});
    for (const Use& use : served) {
      redirect(use, encoded);
      std::erase_if(uses, [&](const Use& other) {
        return other.item == use.item && other.operand == use.operand;
      });
    }
  }

  // Splits the readers at the anchors; those before the first one keep what they read.
  void add_requests(const std::vector<Cut>& cuts, ValueId value, const std::vector<Use>& uses,
                    std::vector<Request>& requests) const {
    std::map<int64_t, CutKind> anchors;
    for (const Cut& cut : cuts) {
      if (cut.kind != CutKind::kForm) anchors.emplace(anchor_key(cut), cut.kind);
    }
    std::map<int64_t, Request> split;
    const auto note = [&](const Use& use, int64_t at, bool moved) {
      const auto after = anchors.upper_bound(at);
      if (after == anchors.begin()) return;
      const auto& [anchor, kind] = *std::prev(after);
      if ((kind == CutKind::kMove) != moved) return;
      split.try_emplace(anchor, Request{value, anchor, {}, kind}).first->second.uses.push_back(use);
    };
    for (const Use& use : uses) {
      if (use.operand < 0) continue;
      note(use, key(use), false);
      // What is moved is there no sooner than where the anchor stands.
      note(use, place(use), true);
    }
    for (auto& [anchor, request] : split) {
      // Where they stand decides what has to be there first.
      std::ranges::stable_sort(request.uses, {}, [&](const Use& use) { return place(use); });
      requests.push_back(std::move(request));
    }
  }

  void serve(NodeId node, const Request& request, std::vector<Clone>& clones) {
    if (request.kind == CutKind::kMove) move(request);
    if (request.kind != CutKind::kRecompute) return;
    if (!dependencies_.repeatable[request.value.index()]) return;
    const Index where = find_place(node, request);
    if (where < 0) return;
    const int output = graph_.value(request.value).output;
    const Clone clone = find_clone(node, output, where, request.anchor, clones);
    const InstanceId copy = add_instance(request.value, clone.number, "");
    std::get<Call>(editor_.item(clone.item)).outputs[static_cast<size_t>(output)] = copy;
    makers_[copy.index()] = clone.item;
    for (const Use& use : request.uses) redirect(use, copy);
  }

  // Stores the value after its maker, to be waited for after the last reader that keeps it, and
  // loads it in front of the first of the others.
  void move(const Request& request) {
    if (graph::is_under_way(graph_, request.value)) return;
    const InstanceId plain = read_by(request.uses.front());
    const Index maker = makers_[plain.index()];
    if (maker < 0 || editor_.key(maker) >= request.anchor || loaded_from_.contains(plain)) return;
    const LoopId body = editor_.entry(maker).body;
    // A sum is there when its loops are done.
    if (body.valid() && !is_carried(facts_, dependencies_, request.value)) return;
    InstanceId& file = moved_[plain];
    if (!file.valid()) {
      file = add_instance(request.value, plan_.instances[plain.index()].copy, "");
      plan_.instances[file.index()].space = Space::kSpill;
      Index last = maker;
      for (const Use& use : sorted_uses(request.value)) {
        const bool kept = read_by(use) == plain && place(use) < request.anchor;
        if (kept && editor_.holds(body, use.item)) last = editor_.item_in(use.item, body);
      }
      editor_.insert_after(last, WaitTransfer{transfers_});
      editor_.insert_after(maker, BeginTransfer{transfers_++, plain, file});
    }
    const int number = plan_.instances[plain.index()].copy;
    if (!dependencies_.axis.of_samples()) return load_rows(request, file, number);
    const InstanceId copy = load_before(request.uses.front().item, file, number);
    for (const Use& use : request.uses) redirect(use, copy);
  }

  // For each loop that reads it the rows that an iteration needs; all of them where that cannot be
  // said.
  void load_rows(const Request& request, InstanceId file, int number) {
    std::map<LoopId, std::vector<Use>> bodies;
    for (const Use& use : request.uses) bodies[editor_.entry(use.item).body].push_back(use);
    for (const auto& [body, uses] : bodies) {
      const std::vector<IterationRows> rows = rows_of_iteration(body, uses);
      Index where = uses.front().item;
      if (rows.empty() && body.valid()) where = editor_.item_in(where, LoopId());
      const InstanceId copy = load_before(where, file, number, rows);
      for (const Use& use : uses) redirect(use, copy);
    }
  }

  // The widest window of the readers; empty: they need all rows, or others than windows.
  std::vector<IterationRows> rows_of_iteration(LoopId body, const std::vector<Use>& uses) const {
    graph::AxisUse widest;
    if (!body.valid()) return {};
    for (const Use& use : uses) {
      const auto& call = std::get<Call>(editor_.entry(use.item).item);
      const AxisRole& role = dependencies_.roles[call.node.index()];
      if (!role.sliced) return {};
      const graph::AxisUse& rows = facts_.axes(call.node)[static_cast<size_t>(role.axis)]
                                       .inputs[static_cast<size_t>(use.operand)];
      const bool other = widest.dimension >= 0 &&
                         (rows.dimension != widest.dimension || rows.stride != widest.stride);
      if (rows.dimension < 0 || other) return {};
      widest = {rows.dimension, rows.stride, std::max(widest.before, rows.before),
                std::max(widest.after, rows.after)};
    }
    return {{dependencies_.axis, widest}};
  }

  // A copy that is loaded from the file in the body of `where`.
  InstanceId load_before(Index where, InstanceId file, int number,
                         std::vector<IterationRows> rows = {}) {
    const InstanceId copy = add_instance(plan_.instances[file.index()].value, number, "");
    loaded_from_[copy] = file;
    makers_[copy.index()] =
        editor_.insert_before(where, BeginTransfer{transfers_, file, copy, std::move(rows)});
    editor_.insert_before(where, WaitTransfer{transfers_++});
    return copy;
  }

  // A clone of the node in the body of `where` that has room for the output; a new one before it.
  Clone find_clone(NodeId node, int output, Index where, int64_t anchor,
                   std::vector<Clone>& clones) {
    const LoopId body = editor_.entry(where).body;
    for (const Clone& clone : clones) {
      const TreeEditor::Entry& entry = editor_.entry(clone.item);
      if (entry.body != body || reading_key(clone.item) < anchor) continue;
      if (entry.key > editor_.key(where)) continue;
      if (!std::get<Call>(entry.item).outputs[static_cast<size_t>(output)].valid()) return clone;
    }
    Call call = std::get<Call>(editor_.entry(calls_[node.index()]).item);
    call.clone = static_cast<int>(clones.size()) + 1;
    std::ranges::fill(call.outputs, InstanceId());
    for (InstanceId& id : call.inputs) id = latest_feed(id, editor_.key(where));
    const std::vector<InstanceId> inputs = call.inputs;
    const Clone clone{editor_.insert_before(lead_of(where), std::move(call)),
                      static_cast<int>(clones.size()) + 1};
    leads_[where] = clone.item;
    anchors_of_clones_[clone.item] = anchor;
    load_states_of(clone.item, where);
    for (size_t i = 0; i < inputs.size(); ++i) {
      uses_[value_of(inputs[i])].push_back({clone.item, static_cast<int>(i)});
    }
    clones.push_back(clone);
    return clone;
  }

  // State variables in the spill file are loaded for the clone alone: what its original read is
  // gone.
  void load_states_of(Index clone, Index where) {
    const std::vector<InstanceId> inputs = std::get<Call>(editor_.entry(clone).item).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto loaded = loaded_from_.find(inputs[i]);
      if (loaded == loaded_from_.end()) continue;
      if (graph_.value(plan_.instances[inputs[i].index()].value).kind != ValueKind::kState)
        continue;
      const InstanceId copy = load_before(clone, loaded->second, 0);
      if (leads_[where] == clone) leads_[where] = makers_[copy.index()];
      std::get<Call>(editor_.item(clone)).inputs[i] = copy;
    }
  }

  // Before what was put before `where` already: nodes come in falling order, so that the longest
  // chain of clones for a reader runs first, when least of what else it needs is there.
  Index lead_of(Index where) const {
    for (auto lead = leads_.find(where); lead != leads_.end(); lead = leads_.find(where)) {
      where = lead->second;
    }
    return where;
  }

  // The last one of several feeds of an input before `key`.
  InstanceId latest_feed(InstanceId id, int64_t key) const {
    const ValueId value = plan_.instances[id.index()].value;
    if (graph_.value(value).kind != ValueKind::kInput) return id;
    int64_t best = editor_.key(makers_[id.index()]);
    for (size_t i = 0; i < plan_.instances.size(); ++i) {
      if (plan_.instances[i].value != value || makers_[i] < 0) continue;
      if (plan_.instances[i].copy >= kOutputCopies) continue;
      const int64_t here = editor_.key(makers_[i]);
      if (here <= best || here >= key) continue;
      best = here;
      id = InstanceId(i);
    }
    return id;
  }

  // The item before which the clone has to stand; −1: there is no place.
  Index find_place(NodeId node, const Request& request) const {
    Index where = request.uses.front().item;
    while (!fits_into(node, editor_.entry(where).body) ||
           !serves_iterations(request, editor_.entry(where).body)) {
      where = editor_.enter(editor_.entry(where).body);
    }
    const int64_t at = editor_.key(where);
    if (reading_key(where) < request.anchor || at <= editor_.key(calls_[node.index()])) return -1;
    for (ValueId input : graph_.node(node).inputs) {
      if (is_overwritten(input, at)) return -1;
    }
    return where;
  }

  bool fits_into(NodeId node, LoopId body) const {
    if (!body.valid()) return true;
    const AxisRole& role = dependencies_.roles[node.index()];
    if (!role.sliced) return false;
    for (LoopId loop = body; loop.valid(); loop = editor_.parent(loop)) {
      const Loop& around = plan_.loops[loop.index()];
      if (around.axis != dependencies_.axis || role.extent != whole_extent(loop)) return false;
      const int64_t whole = dependencies_.lane > 0 ? dependencies_.lane : role.extent;
      if (around.slice % role.unit != 0 && around.slice < whole) return false;
    }
    return true;
  }

  // Rows in all of the outermost loop around.
  int64_t whole_extent(LoopId loop) const {
    while (editor_.parent(loop).valid()) loop = editor_.parent(loop);
    return plan_.loops[loop.index()].extent;
  }

  // Whether what is made in an iteration of `body` is all that its readers there need.
  bool serves_iterations(const Request& request, LoopId body) const {
    if (!body.valid()) return true;
    return std::ranges::all_of(request.uses, [&](const Use& use) {
      if (!editor_.holds(body, use.item) || use.operand < 0) return true;
      const auto* call = std::get_if<Call>(&editor_.entry(use.item).item);
      return call != nullptr &&
             shares_iterations(facts_, dependencies_, call->node, static_cast<size_t>(use.operand));
    });
  }

  // Whether the state variable of this incoming value has a new one by then.
  bool is_overwritten(ValueId value, int64_t at) const {
    const graph::Value& v = graph_.value(value);
    if (v.kind != ValueKind::kState) return false;
    const graph::StateVariable& state = graph_.state(v.state);
    if (!state.write.valid()) return false;
    const ValueId update = dependencies_.updates[v.state.index()];
    const NodeId first = update.valid() ? graph_.value(update).producer : state.write;
    return editor_.key(calls_[first.index()]) < at || editor_.key(calls_[state.write.index()]) < at;
  }

  void cut_input(ValueId value) {
    std::map<InstanceId, std::vector<Use>> groups;
    for (const Use& use : sorted_uses(value)) groups[read_by(use)].push_back(use);
    for (auto& [instance, uses] : groups) {
      std::vector<Request> requests;
      encode(*cuts_of(value), value, uses);
      add_requests(*cuts_of(value), value, uses, requests);
      for (const Request& request : requests) feed_again(request, uses.front());
    }
  }

  void feed_again(const Request& request, const Use& first) {
    if (request.kind != CutKind::kRecompute || key(first) >= request.anchor) return;
    const bool by_iterations = is_carried(facts_, dependencies_, request.value);
    Index where = request.uses.front().item;
    while (!by_iterations && editor_.entry(where).body.valid()) {
      where = editor_.enter(editor_.entry(where).body);
    }
    if (reading_key(where) < request.anchor) return;
    const InstanceId copy = add_instance(request.value, ++copies_[request.value], "");
    makers_[copy.index()] = editor_.insert_before(where, Feed{copy});
    for (const Use& use : request.uses) redirect(use, copy);
  }

  const ProgramFacts& facts_;
  const graph::Graph& graph_;
  const Dependencies& dependencies_;
  ProgramPlan& plan_;
  TreeEditor editor_;
  std::vector<std::vector<Use>> uses_;  // per value
  std::vector<Index> calls_;            // per node: its own call
  std::vector<Index> makers_;           // per instance: who computes or feeds it; −1: nobody
  std::map<Index, int64_t> anchors_of_clones_;
  std::map<Index, Index> leads_;  // what was put first before an item, per item
  std::map<ValueId, int> copies_;
  std::map<InstanceId, InstanceId> loaded_from_;  // per copy of what is in the spill file
  std::map<InstanceId, InstanceId> moved_;        // per value's instance: its copy in the file
  int transfers_ = 0;
  std::map<ValueId, std::vector<Cut>> cuts_;
};

}  // namespace

void apply_cuts(const std::vector<Cut>& cuts, const ProgramFacts& facts,
                const Dependencies& dependencies, ProgramPlan& plan) {
  if (!cuts.empty()) CutMaker(cuts, facts, dependencies, plan).run();
}

std::string smallest_form(const ProgramFacts& facts, NodeId node, size_t input) {
  const std::vector<std::string>& forms = facts.saved_forms(node, input);
  return forms.empty() ? "" : forms.front();
}

}  // namespace plimsoll::plan
