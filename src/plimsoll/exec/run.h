#pragma once

// One run of a program's steps.
//
// Walks the flat list, keeping every loop's current iteration. Allocates nothing and throws nothing
// of its own; what the input source, the output sink, the spill file or the poison throw passes
// through, after transfers under way have ended and exchanges have been given up.

#include "backend/kernel/kernel.h"
#include "base/tensor_io.h"
#include "exec/iterations.h"
#include "exec/lookahead.h"
#include "exec/poison.h"
#include "exec/step_times.h"
#include "exec/tables.h"

namespace plimsoll::exec {

class Run {
 public:
  struct Context {
    ProgramTables& tables;
    std::byte* arena = nullptr;
    SpillQueue* spill = nullptr;
    Lookahead* ahead = nullptr;  // with the spill file
    Poison* poison = nullptr;
    const backend::StepContext& step;
    InputSource* source = nullptr;
    OutputSink* sink = nullptr;
    bool computes = true;
    bool again = false;          // what lasting steps make is there still
    StepTimes* times = nullptr;  // null: not wanted
  };
  explicit Run(const Context& context) : context_(context), tables_(context.tables) {}
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void run();

 private:
  void work(const Step& step);
  void go_on();

  void run_call(CallTable& call);
  void run_blocks(CallTable& call);
  void run_block(CallTable& call);
  size_t shape_of(const CallAxis& axis, const CallTable& call, size_t a) const;
  static bool ends_lane(const CallTable& call);
  void join_lanes(CallTable& call, size_t position, int64_t lane);
  void write_state(const CallTable& call);

  int64_t locate(const OperandTable& operand) const;
  void feed(CopyTable& copy);
  void output(CopyTable& copy);
  void encode(CopyTable& copy);
  void begin_transfer(CopyTable& copy);
  void wait_transfer(const CopyTable& copy);

  Context context_;
  ProgramTables& tables_;
};

}  // namespace plimsoll::exec
