#pragma once

// Watches that kernels stay inside of their operands.
//
// Bytes of the arena that belong to no live buffer hold a pattern (0xFF: not a number as a float,
// −1 as an integer), and so does a buffer until it is written and a kernel's scratch before it
// runs. After each item everything that the item had no right to write must be as it was: dead
// bytes hold the pattern, live buffers that are not its outputs have the checksum that they had.
// What is alive when is read from the plan itself; that the plan is right about it is the
// validator's business. Costs a pass over the arena per item.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "exec/arena.h"
#include "exec/tables.h"
#include "plan/facts/liveness.h"

namespace plimsoll::exec {

class Poison {
 public:
  Poison(const TableContext& context, const Arena& arena);

  // Before the first step of a run: the shared region is dead.
  void start();
  void before(const Step& step, const ProgramTables& tables);
  // Throws kInternal: program, item, what was overwritten.
  void after(const Step& step, const ProgramTables& tables);

 private:
  struct Watched {
    plan::Interval live;  // states: always
    int64_t begin = 0;    // bytes, from the start of the arena
    int64_t end = 0;
    std::string name;
    uint64_t checksum = 0;
    int writers = 0;  // transfers and exchanges under way into it
  };
  void watch_states();
  void watch_buffers();
  void mark_written(plan::InstanceId id, int change);
  void mark_under_way(const plan::Call& call);
  uint64_t checksum(const Watched& watched) const;
  void fill(int64_t begin, int64_t end);
  void check_dead(int64_t begin, int64_t end, const std::string& item) const;
  std::string describe(const Step& step, const ProgramTables& tables) const;
  std::span<const plan::InstanceId> outputs_of(const Step& step, const ProgramTables& tables);

  const TableContext context_;
  std::span<std::byte> arena_;
  std::vector<Watched> watched_;           // by first byte
  std::map<int32_t, size_t> by_instance_;  // position in watched_
  std::map<std::string, size_t> by_state_;
  std::vector<plan::InstanceId> outputs_;
  std::vector<bool> written_;  // by the current item
};

}  // namespace plimsoll::exec
