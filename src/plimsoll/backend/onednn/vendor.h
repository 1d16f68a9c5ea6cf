#pragma once

// The vendor's library behind one small wrapper: its engine, its errors, and primitives that run
// without our allocating.
//
// This header and what includes it are the only places of oneDNN's headers. Its primitive cache is
// off (it grows without end); primitive_cache.h keeps what we want kept. Every primitive is made
// for one thread and runs on the thread that calls it, so OpenMP's threads are never started; who
// wants several shares out the work first (convolution_shares.h, dense.h).

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/onednn/vendor_calls.h"
#include "base/accounted.h"
#include "base/bytes.h"
#include "base/threads/denormals.h"

namespace plimsoll::backend::onednn {

// The one CPU engine of the process; the first call prepares the library.
const dnnl::engine& engine();

// From now on the library uses no instruction beyond those of `isa`, in the words of CpuInfo::isa.
// To be called before engine(). Throws kBackend where the library has begun with others.
void keep_within(const std::string& isa);

// The one place where a vendor's status becomes our exception: kBackend.
[[noreturn]] void throw_vendor_error(std::string_view what, const dnnl::error& error);

// While it lives, the library sees one thread; what the host program has set comes back.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// Runs a vendor call with denormals kept (alphas of post-ops may be denormal).
template <typename Body>
decltype(auto) guarded(std::string_view what, Body&& body) {
  const MemoryTag tag(MemoryPart::kKernels);
  try {
    const OneThread one;
    const KeepDenormals keep;
    return body();
  } catch (const dnnl::error& error) {
    throw_vendor_error(what, error);
  }
}

// Attributes that all our primitives start from: scratchpad in user memory.
dnnl::primitive_attr base_attributes();
// Adds max(x, 0) as a post-op such that a NaN stays one and −0 becomes 0; −inf becomes NaN.
void append_relu(dnnl::post_ops& post_ops);

// What one argument of a primitive is; its address comes with each run.
struct Argument {
  int index = 0;  // DNNL_ARG_…
  dnnl::memory::desc description;
};

// What is known of a primitive before it is made. Equal keys, one primitive.
struct PrimitiveUse {
  std::string key;
  bool products = false;  // multiplies matrices (Compiled::multiplies_matrices)
  Bytes described{};      // of `tables`, what its description holds already
  Bytes tables{};         // that grow with the operands
  Bytes passing{};        // of descriptions that are only compared with its own
  Bytes making{};         // beyond `tables`, while it is described and made
  Bytes code{};           // that is made for it, objects included; zero: as usual for its kind
  // Layouts that weights are moved to or from, and what their tables take (packed_layout.h).
  std::vector<std::pair<std::string, Bytes>> moves{};
  bool direct = false;  // a convolution by the library's own first choice (Compiled::is_direct)
};

// A primitive description and, once somebody wants to run it, the primitive in its place.
struct Compiled {
  dnnl::primitive_desc_base description;  // empty once it is not needed: some weigh half a MiB
  std::string implementation;
  Bytes scratch;
  Bytes tables;                // that the description holds, beyond what a usual one does
  Bytes tried;                 // of implementations that it tries first; see take_tried()
  dnnl::memory::desc weights;  // as the primitive wants them; set by who described it
  dnnl::primitive primitive;   // empty until compile()

  // The most that a description was met to take for a column of its images.
  static constexpr Bytes kMostOfColumn{2560};
  // Fills description, implementation, scratch and tables, which may take `most_tables`;
  // `describes` may be asked again.
  void take(std::function<dnnl::primitive_desc_base()> describes, Bytes most_tables);
  void forget_description();
  // Generates code. Throws kBackend.
  void compile();
  // Whether it lays its operands out for products of matrices: for those the library generates code
  // of its own once a process, and takes buffers while they run.
  bool multiplies_matrices() const { return implementation.find("gemm") != std::string::npos; }
  // Whether it is a kernel of direct convolution, which the library takes or not before it lays out
  // what others need for each column.
  bool is_direct() const { return implementation.starts_with("jit:"); }
  // The tables that are there at once while it is described: a convolution towards the input is
  // described as one forward twice, with its window as it is and rotated by 180 degrees (128 bytes
  // a column were met where 64 stayed, and 2,470 where 1,240 did).
  Bytes most_tables() const {
    return max(tried, implementation.starts_with("brg_fwd") ? tables * 2 : tables);
  }
  // Beyond `made`, the tables of the primitive, while it is described and made: what describing it
  // takes is gone by then; one whose description takes no more than stays may be described anew.
  Bytes making(Bytes made) const {
    return most_tables() > tables ? max(most_tables() - made, Bytes()) : tables;
  }
  // Fills tried, for a convolution towards the input. The library asks each of its forward
  // implementations whether a wider instruction set has it, and describes those of narrower ones on
  // the way: up to 2,440 bytes a column, of which none may stay.
  void take_tried(int64_t columns);

 private:
  std::function<dnnl::primitive_desc_base()> describe_;
};

// One use of a compiled primitive with memory objects of its own; runs in one thread at a time.
class PrimitiveRun {
 public:
  PrimitiveRun(std::shared_ptr<Compiled> compiled, const std::vector<Argument>& arguments);

  // One address per argument, in the order of construction, then the scratchpad.
  void run(std::span<std::byte* const> addresses, std::byte* scratch) const noexcept;

 private:
  std::shared_ptr<Compiled> compiled_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

}  // namespace plimsoll::backend::onednn
