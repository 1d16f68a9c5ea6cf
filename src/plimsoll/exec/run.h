#pragma once

// One run of a program's steps.
//
// Walks the flat list, keeping every loop's current turn. Allocates nothing and throws nothing of
// its own; what the input source, the output sink, the spill file or the poison throw passes
// through, after transfers under way have ended.

#include "backend/kernel.h"
#include "base/tensor_io.h"
#include "exec/poison.h"
#include "exec/spill_file.h"
#include "exec/step_times.h"
#include "exec/tables.h"

namespace plimsoll::exec {

class Run {
 public:
  struct Context {
    ProgramTables& tables;
    std::byte* arena = nullptr;
    SpillFile* spill = nullptr;
    size_t first_transfer = 0;  // of this program in the spill file
    Poison* poison = nullptr;
    const backend::StepContext& step;
    InputSource* source = nullptr;
    OutputSink* sink = nullptr;
    bool computes = true;
    StepTimes* times = nullptr;  // null: not wanted
  };
  explicit Run(const Context& context) : context_(context), tables_(context.tables) {}
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void run();

 private:
  // Position of the next step.
  size_t advance(const Step& step, size_t position);
  void work(const Step& step);
  bool start_turn(size_t loop, int64_t begin);

  void run_call(CallTable& call);
  void run_blocks(CallTable& call);
  void run_block(CallTable& call);
  size_t shape_of(const CallAxis& axis, const CallTable& call, size_t a) const;
  void write_state(const CallTable& call);

  void find_region(CopyTable& copy);
  int64_t locate(const OperandTable& operand) const;
  void feed(CopyTable& copy);
  void drain(CopyTable& copy);
  void encode(CopyTable& copy);
  void begin_transfer(CopyTable& copy);

  Context context_;
  ProgramTables& tables_;
};

}  // namespace plimsoll::exec
