#include <algorithm>

#include "base/format.h"
#include "plan/validate/validator_replay.h"

// Reading and writing rows: what is held, what a sum has seen, what memory loses.

namespace plimsoll::plan::referee {
namespace {

// Position of block (index of each folded axis) in the order in which a sum takes its blocks.
struct FoldOrder {
  int64_t first = 0;
  int64_t last = 0;
  int64_t count = 1;
};

FoldOrder fold_order(const Site& site, const SiteOperand& operand,
                     const std::vector<Range>& windows) {
  FoldOrder order;
  for (int a : operand.folds) {
    const SiteAxis& axis = site.axes[static_cast<size_t>(a)];
    const Range& window = windows[static_cast<size_t>(a)];
    const int64_t blocks = axis.block_count();
    int64_t first = axis.place_of(window.begin);
    int64_t last = axis.place_of(window.end - 1);
    order.count *= last - first + 1;
    if (axis.falling) {
      std::swap(first, last);
      first = blocks - 1 - first;
      last = blocks - 1 - last;
    }
    order.first = order.first * blocks + first;
    order.last = order.last * blocks + last;
  }
  return order;
}

// Lengths of the blocks that a window meets, without repeats.
std::vector<int64_t> block_lengths(const SiteAxis& axis, const Range& window) {
  std::vector<int64_t> lengths;
  const auto add = [&](int64_t row) {
    const Range block = axis.block_of(row);
    const int64_t length = std::min(window.end, block.end) - std::max(window.begin, block.begin);
    if (std::find(lengths.begin(), lengths.end(), length) == lengths.end()) {
      lengths.push_back(length);
    }
    return block.end;
  };
  // The first two blocks and the last one; where there are lanes, all of them.
  int64_t next = add(window.begin);
  if (next < window.end) next = add(next);
  while (axis.lane > 0 && next < window.end) next = add(next);
  add(window.end - 1);
  return lengths;
}

}  // namespace

Validation Replay::check_scratch(const Site& site, const Call& call,
                                 const std::vector<Range>& windows) {
  const auto index = static_cast<size_t>(&site - sites_.sites.data());
  std::vector<std::vector<int64_t>> lengths;
  lengths.reserve(windows.size() + 1);
  for (size_t a = 0; a < windows.size(); ++a) {
    lengths.push_back(block_lengths(site.axes[a], windows[a]));
  }
  lengths.emplace_back();  // so that a call without axes differs from one not seen yet
  if (lengths == lengths_seen_[index]) return ok();
  lengths_seen_[index] = lengths;
  std::vector<std::string> forms;
  for (InstanceId input : call.inputs) {
    forms.push_back(subject_.program.instances[input.index()].form);
  }
  auto& seen = shapes_[index];
  std::vector<size_t> at_length(windows.size(), 0);
  while (true) {
    std::vector<int64_t> extents;
    for (size_t a = 0; a < windows.size(); ++a) extents.push_back(lengths[a][at_length[a]]);
    if (seen.insert(extents).second) {
      const Bytes needed = subject_.catalog.scratch(subject_.source.graph, call.node,
                                                    subject_.source.batch, extents, forms);
      if (call.scratch_bytes < needed) {
        return {Verdict::kScratch,
                fmt::format("{}expected {} bytes of scratch, received {}", at(subject_, site),
                            needed.count(), call.scratch_bytes.count())};
      }
    }
    size_t a = 0;
    while (a < windows.size() && ++at_length[a] == lengths[a].size()) at_length[a++] = 0;
    if (a == windows.size()) return ok();
  }
}

Validation Replay::check_whole_rows(const Site& site, const SiteOperand& operand,
                                    const Box& rows) const {
  const Instance& instance = subject_.program.instances[operand.instance.index()];
  const graph::ValueType& type = subject_.source.graph.value(instance.value).type;
  const bool bits = is_bits(subject_, operand.instance);
  if (!bits && type.dtype != DType::kOpaque) return ok();
  for (size_t d = 0; d < rows.size(); ++d) {
    if (rows[d] == Range{0, operand.dims[d]}) continue;
    const int64_t sample = type.shape[0].count;
    if (bits && d == 0 && type.shape.has_batch() && rows[0].begin % sample == 0 &&
        rows[0].end % sample == 0) {
      continue;
    }
    return {Verdict::kBadForm, at(subject_, site) + name_of(subject_, operand.instance) +
                                   ": bits and packed bytes are touched in whole samples, "
                                   "received " +
                                   text(rows)};
  }
  return ok();
}

Validation Replay::why_missing(const Site& site, const SiteOperand& operand, const Box& rows,
                               const Progress& progress) const {
  const size_t index = operand.instance.index();
  const std::string where =
      at(subject_, site) + name_of(subject_, operand.instance) + ", rows " + text(rows) + ": ";
  for (size_t t : under_way_) {
    const Site& begin = sites_.sites[sites_.transfers[t].begin];
    if (begin.writes[0].instance == operand.instance) {
      return {Verdict::kMissingWait, fmt::format("{}read before the wait for transfer {}", where,
                                                 sites_.transfers[t].number)};
    }
  }
  if (progress.least >= 0) {
    return {Verdict::kIncompleteSum, fmt::format("{}expected a sum of {} blocks, received {}",
                                                 where, complete_[index], progress.least)};
  }
  if (state_of_instance_[index] >= 0) {
    return {Verdict::kStateOrder, where + "the state variable's memory holds another value by now"};
  }
  if (taken_[index]) {
    return {Verdict::kBadInPlace, where + "read after its memory was reused"};
  }
  return {Verdict::kNotComputed, where +
                                     "expected rows that are computed, received some that hold "
                                     "nothing or something else"};
}

Validation Replay::read(const Site& site, const SiteOperand& operand, const Box& rows) const {
  const size_t index = operand.instance.index();
  const Progress progress = held_[index].over(rows);
  if (progress.least >= complete_[index]) return ok();
  return why_missing(site, operand, rows, progress);
}

// Neither end of a transfer under way may change.
Validation Replay::check_pending(const Site& site, InstanceId id) const {
  for (size_t t : under_way_) {
    const Site& begin = sites_.sites[sites_.transfers[t].begin];
    for (InstanceId end : {begin.reads[0].instance, begin.writes[0].instance}) {
      const int state = state_of_instance_[end.index()];
      const bool shared = sites_.group[end.index()] == sites_.group[id.index()] ||
                          (state >= 0 && state == state_of_instance_[id.index()]);
      if (!shared) continue;
      return {Verdict::kMissingWait,
              fmt::format("{}overwrites {} before the wait for transfer {}", at(subject_, site),
                          name_of(subject_, end), sites_.transfers[t].number)};
    }
  }
  return ok();
}

// What is stored in the place of a state variable in the spill file must be rows that its write has
// accepted, each once.
Validation Replay::check_stored(const Site& site, const StateMemory& memory,
                                const graph::StateVariable& state, const Box& rows) const {
  const std::string where = at(subject_, site) + "state variable " + state.name + ": ";
  if (!state.write.valid()) {
    return {Verdict::kStateOrder, where + "stored, although this program never writes it"};
  }
  const Box accepted = rows.empty() ? Box() : Box{rows[0]};
  if (computed_[state.write.index()].over(accepted).least != 1) {
    return {Verdict::kStateOrder, where + "stored before its write"};
  }
  const graph::ValueId outgoing = subject_.source.graph.node(state.write).inputs[0];
  for (InstanceId id : memory.instances) {
    if (subject_.program.instances[id.index()].value != outgoing) continue;
    if (!held_[id.index()].intersects(rows)) continue;
    return {Verdict::kStateOrder, where + "rows " + text(rows) + " are stored a second time"};
  }
  return ok();
}

// What else lies in the memory that is written now.
Validation Replay::release_memory(const Site& site, const SiteOperand& operand, const Box& rows) {
  const InstanceId id = operand.instance;
  if (Validation v = check_pending(site, id); !v.ok()) return v;
  const auto release = [&](InstanceId other) {
    const graph::Graph& graph = subject_.source.graph;
    const graph::ValueId value = subject_.program.instances[other.index()].value;
    const bool alike = graph.value(value).type.shape.at(subject_.source.batch) == operand.dims;
    const bool row_like =
        !rows.empty() && !operand.dims.empty() && graph.value(value).type.shape.has_batch();
    taken_[other.index()] = true;
    if (alike) {
      held_[other.index()].erase(rows);
    } else if (row_like && state_of_instance_[other.index()] < 0) {
      // Another shape of the same bytes (a view): what is lost is the same share of rows.
      const std::vector<int64_t> dims = graph.value(value).type.shape.at(subject_.source.batch);
      Box lost;
      for (int64_t dim : dims) lost.push_back({0, dim});
      lost[0] = {rows[0].begin * dims[0] / operand.dims[0],
                 (rows[0].end * dims[0] + operand.dims[0] - 1) / operand.dims[0]};
      held_[other.index()].erase(lost);
    } else {
      held_[other.index()].clear();
    }
  };
  for (InstanceId other : sharers_[id.index()]) release(other);
  StateMemory* memory = state_of(id);
  if (memory == nullptr) return ok();
  const graph::StateVariable& state =
      subject_.source.graph.states[static_cast<size_t>(state_of_instance_[id.index()])];
  if (memory->in_file) {
    if (Validation v = check_stored(site, *memory, state, rows); !v.ok()) return v;
  } else if (memory->final || !state.write.valid()) {
    return {Verdict::kStateOrder, at(subject_, site) + "writes into state variable " + state.name +
                                      (memory->final ? " after its write"
                                                     : ", which is not written "
                                                       "in this program")};
  }
  for (InstanceId other : memory->instances) {
    if (other != id) release(other);
  }
  return ok();
}

Replay::StateMemory* Replay::state_of(InstanceId instance) {
  const int state = state_of_instance_[instance.index()];
  return state < 0 ? nullptr : &states_[static_cast<size_t>(state)];
}

Validation Replay::fold(const Site& site, const SiteOperand& operand,
                        const std::vector<Range>& windows, const Box& rows) {
  const size_t index = operand.instance.index();
  const FoldOrder order = fold_order(site, operand, windows);
  const std::string where = at(subject_, site) + name_of(subject_, operand.instance) + ": ";
  if (order.last - order.first + 1 != order.count) {
    return {Verdict::kBlockOrder,
            fmt::format(
                "{}blocks {} to {} come as {}, expected them in lexicographic order without gaps",
                where, order.first, order.last, order.count)};
  }
  if (order.first > 0) {
    const Progress progress = held_[index].over(rows);
    if (progress.least < 0 && ever_written_[index]) {
      return {Verdict::kIncompleteSum,
              fmt::format("{}block {} is to be added to a sum that is gone; expected a scope "
                          "outside of the loop that cuts the sum",
                          where, order.first)};
    }
    if (progress.least != order.first || progress.most != order.first) {
      return {Verdict::kBlockOrder, fmt::format("{}expected block {} next, received {}", where,
                                                std::max<int64_t>(progress.least, 0), order.first)};
    }
  }
  held_[index].set(rows, order.last + 1);
  ever_written_[index] = true;
  return ok();
}

Validation Replay::write(const Site& site, const SiteOperand& operand,
                         const std::vector<Range>& windows) {
  const Box rows = region(operand, windows);
  if (Validation v = check_whole_rows(site, operand, rows); !v.ok()) return v;
  if (Validation v = release_memory(site, operand, rows); !v.ok()) return v;
  return fold(site, operand, windows, rows);
}

Validation Replay::run_begin(size_t index) {
  const Site& site = sites_.sites[index];
  const std::vector<Range> windows = windows_of(site);
  const Box rows = region(site.reads[0], windows);
  if (Validation v = read(site, site.reads[0], rows); !v.ok()) return v;
  if (Validation v = check_whole_rows(site, site.writes[0], rows); !v.ok()) return v;
  if (Validation v = release_memory(site, site.writes[0], rows); !v.ok()) return v;
  held_[site.writes[0].instance.index()].erase(rows);
  const size_t t = transfer_of_[index];
  pending_[t] = rows;
  under_way_.insert(t);
  return ok();
}

Validation Replay::run_wait(size_t index) {
  const size_t t = transfer_of_[index];
  under_way_.erase(t);
  const InstanceId target = sites_.sites[sites_.transfers[t].begin].writes[0].instance;
  held_[target.index()].set(pending_[t], 1);
  ever_written_[target.index()] = true;
  return ok();
}

}  // namespace plimsoll::plan::referee
