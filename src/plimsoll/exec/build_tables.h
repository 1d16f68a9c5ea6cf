#pragma once

// Inside of build_tables(): where instances lie, and the tables of calls and of copies.

#include <functional>

#include "exec/tables.h"

namespace plimsoll::exec {

// How an instance's rows lie in its memory.
struct InstanceLayout {
  plan::InstanceRule rule;
  std::vector<int64_t> dims;     // the most rows of any iteration
  std::vector<int64_t> strides;  // in elements
  std::vector<int64_t> steps;    // bytes per stride of each dimension
  int64_t unit = 1;              // rows of dimension 0 per step
  int64_t offset = 0;            // from the start of the arena, or of the spill file
  int64_t element = 0;           // bytes; of packed bits a sample's
  bool bits = false;
};

class TableBuilder {
 public:
  explicit TableBuilder(const TableContext& context);
  ProgramTables build();

 private:
  void add_items(const std::vector<plan::Item>& items);
  void add_loop(plan::LoopId loop);
  void add_call(const plan::Call& call);
  void add_copy(const plan::Item& item);

  // build_calls.cpp
  OperandTable call_operand(plan::InstanceId id, const std::vector<graph::Axis>& axes, bool output,
                            size_t position) const;
  void add_shapes(const plan::Call& call, const std::vector<graph::Axis>& axes,
                  CallTable& table) const;
  void make_kernels(const plan::Call& call, const std::vector<graph::Axis>& axes,
                    CallTable& table) const;
  KernelTable make_kernel(const plan::Call& call, const std::vector<graph::Axis>& axes,
                          const CallTable& table, std::span<const size_t> shape) const;
  void add_sums(const plan::Call& call, const std::vector<graph::Axis>& axes,
                CallTable& table) const;
  using WindowBody = std::function<void(plan::RowRange)>;
  void for_each_window(plan::LoopId loop, int64_t extent, const WindowBody& body) const;
  bool is_view_in_place(const plan::Call& call) const;

  // build_copies.cpp
  OperandTable copy_operand(plan::InstanceId id, const std::vector<CutTerm>& rows) const;
  std::vector<CutTerm> iteration_rows_of(plan::InstanceId id) const;
  plan::LoopId innermost_loop(const plan::LoopAxis& axis) const;
  void narrow(const std::vector<plan::IterationRows>& asked, std::vector<CutTerm>& rows) const;
  void make_encoders(CopyTable& table) const;
  SpillRegion spill_layout(const CopyTable& table) const;

  InstanceLayout lay_out(plan::InstanceId id) const;
  std::vector<CutTerm> scope_terms(plan::InstanceId id) const;
  const graph::Graph& graph() const { return context_.program.graph; }
  const graph::ValueType& type_of(plan::InstanceId id) const;

  const TableContext& context_;
  const plan::ProgramPlan& plan_;
  plan::AxisTable axes_;
  std::vector<plan::LoopId> parents_;
  std::vector<plan::InstanceRule> rules_;
  std::vector<InstanceLayout> layouts_;
  std::vector<plan::LoopId> open_;
  std::vector<std::pair<int, size_t>> transfers_;  // number, copy
  int64_t number_ = 0;
  ProgramTables tables_;
};

}  // namespace plimsoll::exec
