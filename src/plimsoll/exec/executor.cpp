#include "exec/executor.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cpu/threads/threads.h"
#include "base/accounted.h"
#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"
#include "base/threads/denormals.h"
#include "base/threads/fork.h"
#include "exec/arena.h"
#include "exec/iterations.h"
#include "exec/lookahead.h"
#include "exec/measure.h"
#include "exec/poison.h"
#include "exec/run.h"
#include "exec/spill_queue.h"
#include "exec/step_times.h"
#include "exec/tables.h"

namespace plimsoll::exec {

WorkSharing kernel_threads(int threads) {
  return {threads, [](int parts, WorkSharing::Part part, const void* body) noexcept {
            backend::cpu::for_each_part(parts, [&](int i) { part(body, i); });
          }};
}

class Executor::Impl {
 public:
  Impl(const graph::ProgramSet& programs, const plan::Plan& plan, backend::Backend& backend,
       const ExecutorOptions& options)
      : plan_(plan),
        backend_(backend),
        arena_(plan.arena_bytes),
        ran_(plan.programs.size(), false) {
    const MemoryTag tag(MemoryPart::kStructures);
    PLIMSOLL_CHECK(programs.programs.size() == plan.programs.size(), "a plan of other programs");
    for (size_t p = 0; p < programs.programs.size(); ++p) {
      const TableContext context{programs.programs[p], plan, plan.programs[p], backend};
      tables_.push_back(with_context("while preparing program " + programs.programs[p].name,
                                     [&] { return build_tables(context); }));
      if (options.times) {
        times_.push_back(std::make_unique<StepTimes>(tables_.back(), programs.programs[p]));
      }
      if (options.poison) poisons_.push_back(std::make_unique<Poison>(context, arena_));
    }
    backend.finish_making();
    if (plan.spill_bytes > Bytes() && backend.computes()) open_spill(options);
  }

  void run(size_t program, const backend::StepContext& step, InputSource* source,
           OutputSink* sink) {
    PLIMSOLL_CHECK(program < tables_.size(), "a program that the plan does not have");
    const FlushDenormals flush;
    const backend::cpu::ThreadLimit threads(backend_.catalog().thread_count());
    Poison* poison = poisons_.empty() ? nullptr : poisons_[program].get();
    if (poison != nullptr) poison->start();
    StepTimes* times = times_.empty() ? nullptr : times_[program].get();
    if (times != nullptr) times->start_run();
    const bool again = last_ == program && poison == nullptr;
    last_.reset();  // a run that fails leaves nothing
    Run({.tables = tables_[program],
         .arena = arena_.data(),
         .spill = spill_.get(),
         .ahead = aheads_.empty() ? nullptr : aheads_[program].get(),
         .poison = poison,
         .step = step,
         .source = source,
         .sink = sink,
         .computes = backend_.computes(),
         .again = again,
         .times = times})
        .run();
    last_ = program;
    ran_[program] = true;
    if (times != nullptr) times->end_run();
  }

  std::span<std::byte> state(std::string_view name) {
    last_.reset();
    return memory_of(name);
  }

  std::span<const std::byte> state_to_read(std::string_view name) const {
    if (place_of(name).space != plan::Space::kState) return {};
    return memory_of(name);
  }

  std::span<std::byte> memory_of(std::string_view name) const {
    const plan::StatePlacement& place = place_of(name);
    PLIMSOLL_CHECK(place.space == plan::Space::kState, "state " + place.name + " is in a file");
    return {arena_.data() + place.offset.count(), place.bytes.size()};
  }

  void read_state(std::string_view name, int64_t begin, std::span<std::byte> destination) {
    const plan::StatePlacement& place = place_of(name);
    if (place.space == plan::Space::kState) {
      std::memcpy(destination.data(), memory_of(name).data() + begin, destination.size());
    } else if (spill_) {
      spill_->read(place.offset.count() + begin, destination);
    } else {
      std::ranges::fill(destination, std::byte{0});
    }
  }

  void write_state(std::string_view name, int64_t begin, std::span<const std::byte> source) {
    const plan::StatePlacement& place = place_of(name);
    last_.reset();
    if (place.space == plan::Space::kState) {
      std::memcpy(memory_of(name).data() + begin, source.data(), source.size());
    } else if (spill_) {
      spill_->write(place.offset.count() + begin, source);
    }
  }

  const StepTimes* times(size_t program) const {
    return times_.empty() ? nullptr : times_[program].get();
  }

  void forget_times() {
    for (const std::unique_ptr<StepTimes>& times : times_) times->forget();
  }

  const Arena& arena() const { return arena_; }
  Bytes values_bytes() const {
    std::vector<size_t> ran;
    for (size_t p = 0; p < ran_.size(); ++p) {
      if (ran_[p]) ran.push_back(p);
    }
    return exec::values_bytes(plan_, ran);
  }

  Bytes overhead() const {
    Bytes bytes(sizeof(Impl));
    for (const ProgramTables& tables : tables_) bytes += tables.overhead();
    if (spill_) bytes += spill_->overhead();
    return bytes;
  }

 private:
  const plan::StatePlacement& place_of(std::string_view name) const {
    const auto place = std::ranges::find(plan_.states, name, &plan::StatePlacement::name);
    if (place != plan_.states.end()) return *place;
    std::vector<std::string> known;
    for (const plan::StatePlacement& each : plan_.states) known.push_back(each.name);
    throw Error(ErrorKind::kConfig, "expected the name of a state variable, received \"" +
                                        std::string(name) + "\"." + did_you_mean(name, known));
  }

  void open_spill(const ExecutorOptions& options) {
    const MemoryTag tag(MemoryPart::kSpill);
    if (options.spill_directory.empty()) {
      throw Error(ErrorKind::kConfig, fmt::format("executor: the plan moves {} to a spill file, "
                                                  "expected a folder for it. Pass --spill-dir.",
                                                  to_string(plan_.spill_bytes)));
    }
    size_t rank = 0;
    size_t open = 0;
    for (const ProgramTables& tables : tables_) {
      rank = std::max(rank, find_most_dimensions(tables));
      open = std::max(open, find_most_open(tables));
    }
    spill_ = std::make_unique<SpillQueue>(
        options.spill_directory,
        SpillQueue::Shape{plan_.spill_bytes, max(options.spill_buffer, kSpillBuffer), rank, open});
    for (const ProgramTables& tables : tables_) {
      aheads_.push_back(std::make_unique<Lookahead>(tables, arena_.data(), *spill_));
    }
  }

  const plan::Plan& plan_;
  backend::Backend& backend_;
  Arena arena_;
  std::vector<ProgramTables> tables_;
  std::vector<std::unique_ptr<Poison>> poisons_;
  std::vector<std::unique_ptr<StepTimes>> times_;
  std::unique_ptr<SpillQueue> spill_;
  std::vector<std::unique_ptr<Lookahead>> aheads_;
  std::vector<bool> ran_;
  std::optional<size_t> last_;  // the program that ran last, nothing written since
};

Executor::Executor(const graph::ProgramSet& programs, const plan::Plan& plan,
                   backend::Backend& backend, const ExecutorOptions& options)
    : impl_((refuse_in_child("run"), std::make_unique<Impl>(programs, plan, backend, options))) {}

Executor::~Executor() = default;

void Executor::run(size_t program, const backend::StepContext& step, InputSource* source,
                   OutputSink* sink) {
  refuse_in_child("run");
  impl_->run(program, step, source, sink);
}

std::span<std::byte> Executor::state(std::string_view name) { return impl_->state(name); }
std::span<const std::byte> Executor::state_to_read(std::string_view name) const {
  return impl_->state_to_read(name);
}
void Executor::read_state(std::string_view name, int64_t begin, std::span<std::byte> destination) {
  refuse_in_child("read_state");
  impl_->read_state(name, begin, destination);
}
void Executor::write_state(std::string_view name, int64_t begin,
                           std::span<const std::byte> source) {
  refuse_in_child("write_state");
  impl_->write_state(name, begin, source);
}
std::span<const std::byte> Executor::arena() const {
  return {impl_->arena().data(), impl_->arena().bytes().size()};
}
const StepTimes* Executor::times(size_t program) const { return impl_->times(program); }

void Executor::forget_times() { impl_->forget_times(); }
Bytes Executor::arena_bytes() const { return impl_->arena().bytes(); }
Bytes Executor::measured_arena_bytes() const { return impl_->arena().resident(); }
Bytes Executor::arena_values_bytes() const { return impl_->values_bytes(); }
Bytes Executor::overhead_bytes() const { return impl_->overhead(); }

}  // namespace plimsoll::exec
