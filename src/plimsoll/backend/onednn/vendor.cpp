#include "backend/onednn/vendor.h"

#include <malloc.h>
#include <omp.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "backend/onednn/library_pages.h"
#include "base/error.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "base/threads/denormals.h"

namespace plimsoll::backend::onednn {
namespace {

const dnnl::stream& stream() {
  static const dnnl::stream instance(engine());
  return instance;
}

dnnl::engine make_engine() {
  const MemoryTag tag(MemoryPart::kEngine);
  dnnl::set_primitive_cache_capacity(0);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  drop_library_pages();
  return engine;
}

// The library generates code for products of matrices when the first one runs, and walks through
// much of its own for that. It is made to do so here, before the arena is touched: the pages of the
// walk are given back (library_pages.h) and do not add to the run's peak.
void generate_products() {
  constexpr dnnl_dim_t kSmall = 48;   // for kernels that read the operands where they lie
  constexpr dnnl_dim_t kLong = 1024;  // of rows that are copied first
  std::vector<float> numbers(static_cast<size_t>(kSmall * kLong));
  for (const dnnl_dim_t inner : {kSmall, kLong}) {
    for (const char left : {'N', 'T'}) {
      for (const char right : {'N', 'T'}) {
        const dnnl_dim_t left_row = left == 'N' ? inner : kSmall;
        const dnnl_dim_t right_row = right == 'N' ? kSmall : inner;
        std::vector<float> result(static_cast<size_t>(kSmall * kSmall));
        dnnl_sgemm(left, right, kSmall, kSmall, inner, 1.0f, numbers.data(), left_row,
                   numbers.data(), right_row, 0.0f, result.data(), kSmall);
      }
    }
  }
}

// What malloc has given out; 0 where the C library does not say.
int64_t bytes_in_use() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
#else
  return 0;
#endif
}

// Small pieces that the thread freed before and keeps aside: the heap counts them as in use, so
// what is described would have them uncounted, sometimes more and sometimes less. Held while it is.
class KeptAside {
 public:
  KeptAside() {
    size_t next = 0;
    for (size_t size = kLeast; size <= kMost; size += kStep) {
      for (size_t i = 0; i < kOfSize; ++i) pieces_[next++] = std::malloc(size);
    }
  }
  ~KeptAside() {
    for (void* const piece : pieces_) std::free(piece);
  }
  KeptAside(const KeptAside&) = delete;
  KeptAside& operator=(const KeptAside&) = delete;

 private:
  // As glibc keeps them: seven of each size.
  static constexpr size_t kLeast = 24, kMost = 1032, kStep = 16, kOfSize = 7;
  std::array<void*, ((kMost - kLeast) / kStep + 1) * kOfSize> pieces_{};
};

// Usual descriptions take 27 to 52 KiB. What the heap says of one differs by up to 10 KiB with what
// was freed before it (20 where a hundred networks were planned), and the first one in a process
// takes 30 KiB more: the bound lies where none of a usual one would be on either side of it by
// chance in a process that plans a few. `most`: what its tables may take; where
// that is part of what is allowed for any, little more than usual is none.
Bytes tables_within(Bytes held, Bytes most) {
  constexpr Bytes kUsualDescription = 60_KiB;
  constexpr Bytes kLittleMore = 32_KiB;
  constexpr Bytes kGrain = 64_KiB;
  const Bytes more = max(held - kUsualDescription, Bytes());
  return most < kLittleMore && more < kLittleMore ? Bytes() : round_up(more, kGrain);
}

// Whether primitives were made since one ran, so that pages of their making lie about.
std::atomic<bool> made_since_run{false};

dnnl::cpu_isa vendor_isa(const std::string& isa) {
  if (isa == "avx512_amx") return dnnl::cpu_isa::avx512_core_amx;
  if (isa == "avx512_bf16") return dnnl::cpu_isa::avx512_core_bf16;
  if (isa == "avx512") return dnnl::cpu_isa::avx512_core;
  return isa == "avx2" ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41;
}

}  // namespace

void keep_within(const std::string& isa) {
#if defined(__x86_64__)
  static const std::string first = isa;
  static const dnnl::status status = dnnl::set_max_cpu_isa(vendor_isa(isa));
  if (first == isa && status == dnnl::status::success) return;
  throw Error(ErrorKind::kBackend,
              "PLIMSOLL_PROCESSOR: expected one instruction set for the whole process, received " +
                  isa + " where oneDNN has begun with " + (first == isa ? "another" : first) + ".");
#else
  (void)isa;
#endif
}

const dnnl::engine& engine() {
  static const dnnl::engine instance = make_engine();
  return instance;
}

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

void throw_vendor_error(std::string_view what, const dnnl::error& error) {
  throw Error(ErrorKind::kBackend,
              fmt::format("{}: oneDNN failed with status {} ({}). Train with the reference "
                          "backend, or report the layer.",
                          what, static_cast<int>(error.status), error.message));
}

dnnl::primitive_attr base_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void append_relu(dnnl::post_ops& post_ops) {
  // With slope 0 the library takes a maximum that turns NaN into 0. With the smallest denormal,
  // which counts as 0 while kernels run, negative numbers are multiplied by it, and so is NaN.
  constexpr float kSmallestDenormal = 1e-45f;
  post_ops.append_eltwise(dnnl::algorithm::eltwise_relu, kSmallestDenormal, 0.0f);
  post_ops.append_eltwise(dnnl::algorithm::eltwise_linear, 1.0f, 0.0f);
}

void Compiled::take(std::function<dnnl::primitive_desc_base()> describes, Bytes most_tables) {
  describe_ = std::move(describes);
  const KeptAside kept_aside;
  const int64_t before = bytes_in_use();
  description = describe_();
  tables = tables_within(Bytes(bytes_in_use() - before), most_tables);
  implementation = description.impl_info_str();
  const const_dnnl_memory_desc_t scratchpad =
      dnnl_primitive_desc_query_md(description.get(), dnnl_query_scratchpad_md, 0);
  scratch = Bytes(static_cast<int64_t>(dnnl_memory_desc_get_size(scratchpad)));
}

void Compiled::take_tried(int64_t columns) {
  const Bytes most = kMostOfColumn * columns;
  constexpr Bytes kManyOfColumn{512};
  if (tables > kManyOfColumn * columns) {
    tried = most;  // which these are near to
    return;
  }
  description = {};  // not to be held beside
  const KeptAside kept_aside;
  const int64_t before = bytes_in_use();
  const dnnl::primitive_desc_base other = describe_();
  while (dnnl_primitive_desc_next_impl(other.get()) == dnnl_success) {
    if (!std::string_view(other.impl_info_str()).starts_with("brg_fwd")) continue;
    tried = max(tried, tables + tables_within(Bytes(bytes_in_use() - before), most) * 2);
  }
}

void Compiled::forget_description() { description = {}; }

void Compiled::compile() {
  if (primitive) return;
  guarded(implementation, [&] {
    if (!description) description = describe_();
    primitive = dnnl::primitive(description.get());
    if (multiplies_matrices()) {
      static std::once_flag once;
      std::call_once(once, generate_products);
    }
  });
  forget_description();
  made_since_run = true;
  // What one takes while it is made lies between what the others keep, some 110 KiB apiece that the
  // next, which is larger or smaller, does not use.
  constexpr int64_t kMadeAtOnce = 16;
  static std::atomic<int64_t> made = 0;
  if (++made % kMadeAtOnce == 0) give_back_free_heap();
}

PrimitiveRun::PrimitiveRun(std::shared_ptr<Compiled> compiled,
                           const std::vector<Argument>& arguments)
    : compiled_(std::move(compiled)) {
  compiled_->compile();
  guarded(compiled_->implementation, [&] {
    stream();
    const auto add = [&](int index, const dnnl::memory::desc& description) {
      memories_.push_back(dnnl::memory(description, engine(), DNNL_MEMORY_NONE));
      arguments_.push_back({index, memories_.back().get()});
    };
    memories_.reserve(arguments.size() + 1);
    for (const Argument& argument : arguments) add(argument.index, argument.description);
    const dnnl::memory::dims bytes = {compiled_->scratch.count()};
    add(DNNL_ARG_SCRATCHPAD,
        dnnl::memory::desc(bytes, dnnl::memory::data_type::u8, dnnl::memory::format_tag::a));
  });
}

void PrimitiveRun::run(std::span<std::byte* const> addresses, std::byte* scratch) const noexcept {
  if (made_since_run.load(std::memory_order_relaxed) && made_since_run.exchange(false)) {
    drop_library_pages();
  }
  const MemoryTag tag(MemoryPart::kKernels);
  const OneThread one;
  const FlushDenormals flush;
  for (size_t i = 0; i < addresses.size(); ++i) {
    dnnl_memory_set_data_handle(arguments_[i].memory, addresses[i]);
  }
  dnnl_memory_set_data_handle(arguments_.back().memory, scratch);
  const dnnl_status_t status =
      dnnl_primitive_execute(compiled_->primitive.get(), stream().get(),
                             static_cast<int>(arguments_.size()), arguments_.data());
  // A primitive that was made and given its memory has nothing left that can fail.
  PLIMSOLL_CHECK(status == dnnl_success, "a primitive failed to run: " + compiled_->implementation);
}

}  // namespace plimsoll::backend::onednn
