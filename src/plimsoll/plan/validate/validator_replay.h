#pragma once

// Runs a program's tree iteration by iteration and keeps what every instance holds.
//
// At the start of a loop's iteration the instances whose scope it is hold nothing. A call needs its
// rows held and complete, and gives its outputs' rows; memory that is reused or written through
// holds nothing of the old value any more. Nothing is collapsed: every iteration is replayed, a
// call's blocks in one step (its rows are contiguous on each axis; the order in which blocks reach
// a sum is worked out in closed form), so the cost is iterations times items.

#include <set>
#include <vector>

#include "plan/validate/validator_impl.h"

namespace plimsoll::plan::referee {

class Replay {
 public:
  Replay(const Subject& subject, const Sites& sites);
  Validation run();

 private:
  struct StateMemory {
    std::vector<InstanceId> instances;
    bool final = false;  // holds the outgoing value, which the state write has accepted
    bool in_file = false;
  };

  void find_memory(size_t instance);
  Validation run_body(const Body& body);
  Validation run_loop(LoopId loop);
  Validation run_site(size_t index);
  Validation run_call(const Site& site, const Call& call);
  bool is_in_file(graph::StateId state) const;
  Validation check_all_stored() const;
  Validation run_state_write(const Site& site, const Call& call);
  Validation run_begin(size_t index);
  Validation run_wait(size_t index);
  Validation run_output(const Site& site, InstanceId source);

  std::vector<Range> windows_of(const Site& site) const;
  Validation check_window(const Site& site, size_t axis, const Range& window) const;
  Validation check_repeats(const Site& site, const Call& call, const std::vector<Range>& windows);
  Validation check_scratch(const Site& site, const Call& call, const std::vector<Range>& windows);
  Validation read(const Site& site, const SiteOperand& operand, const Box& rows) const;
  Validation why_missing(const Site& site, const SiteOperand& operand, const Box& rows,
                         const Progress& progress) const;
  Validation write(const Site& site, const SiteOperand& operand, const std::vector<Range>& windows);
  Validation check_pending(const Site& site, InstanceId id) const;
  Validation check_stored(const Site& site, const StateMemory& memory,
                          const graph::StateVariable& state, const Box& rows) const;
  Validation release_memory(const Site& site, const SiteOperand& operand, const Box& rows);
  Validation fold(const Site& site, const SiteOperand& operand, const std::vector<Range>& windows,
                  const Box& rows);
  Validation check_whole_rows(const Site& site, const SiteOperand& operand, const Box& rows) const;
  Validation check_end() const;
  int64_t blocks_in_all(const SiteOperand& operand, const Site& site) const;
  StateMemory* state_of(InstanceId instance);

  const Subject& subject_;
  const Sites& sites_;
  std::vector<Range> iterations_;            // current window of each loop
  std::vector<std::vector<LoopId>> chains_;  // per loop: loops around it of its axis, self last
  std::vector<HeldRows> held_;               // per instance
  std::vector<int64_t> complete_;            // per instance: progress of a finished sum
  std::vector<bool> ever_written_;           // per instance
  std::vector<bool> taken_;  // per instance: memory reused since its iteration began
  std::vector<std::vector<InstanceId>> sharers_;  // per instance: others of its in_place group
  std::vector<HeldRows> computed_;                // per node: boxes of its axes
  std::vector<int64_t> handed_out_;     // per value: next row of dimension 0; −1: none yet
  std::vector<StateMemory> states_;     // per state variable of the program
  std::vector<int> state_of_instance_;  // −1: not in state memory
  std::vector<size_t> transfer_of_;     // per site of a begin or a wait: the transfer
  std::vector<Box> pending_;            // per transfer: rows under way
  std::set<size_t> under_way_;          // transfers
  std::vector<std::set<std::vector<int64_t>>> shapes_;           // per site: call shapes seen
  std::vector<std::vector<std::vector<int64_t>>> lengths_seen_;  // per site: of the last call
};

}  // namespace plimsoll::plan::referee
