// The module _arrays: NumPy's allocator of data, with a count and a limit (docs/design/0036).
//
// NumPy (1.22 and later) takes the functions by which it allocates what arrays hold from a context
// variable. `begin` puts ours in front of those that are there: they do the work, and ours count;
// only the largest arrays are made here, aligned so that frameworks can refer to them. What would
// take the process beyond the limit is answered as memory that there is not, and NumPy raises its
// own error. Each array keeps the functions that it was made by, so those here live as long as the
// process.
//
// NumPy's headers are not needed: of its table of functions three are called by their numbers, and
// the structure below is a part of its stable interface. Of Python's only the stable one is used.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "array_ledger.h"
#include "array_pages.h"
#include "process_taken.h"

namespace plimsoll::python {
namespace {

// As in numpy/ndarraytypes.h.
struct Allocator {
  void* context;
  void* (*malloc)(void*, size_t);
  void* (*calloc)(void*, size_t, size_t);
  void* (*realloc)(void*, void*, size_t);
  void (*free)(void*, void*, size_t);
};
struct Handler {
  char name[127];
  uint8_t version;
  Allocator allocator;
};
constexpr const char* kCapsule = "mem_handler";
constexpr int kFeatureVersion = 211;
constexpr int kSetHandler = 304;
constexpr int kGetHandler = 305;
constexpr unsigned kWithHandlers = 0xf;  // NumPy 1.22

// Bytes that are made between two readings of the process's memory: making so much takes far longer
// than to look. Where much is left it is a part of that.
constexpr size_t kBetweenReadings = 1 << 20;
constexpr int64_t kPartOfRoom = 16;
// Frameworks refer to memory that is aligned like this, and copy other. Arrays that are as large as
// this are pages of their own.
constexpr size_t kAligned = 64;
constexpr size_t kReferredTo = 32 << 20;
constexpr size_t kMostBlocks = 64;  // that a refusal names

struct Refusal {
  size_t bytes = 0;
  int64_t taken = 0;
  int64_t unfilled = 0;
  int64_t small = 0;
  int32_t line = 0;
  std::vector<Held> held;
  std::vector<Block> blocks;
};

// Lines of the program, by number. Python's lock guards it.
class Lines {
 public:
  Lines() { places_.emplace_back(); }
  void set_foreign(std::vector<std::string> folders) { foreign_ = std::move(folders); }
  // The innermost line of the program's own files; 0 where there is none, or nobody may look.
  int32_t find();
  const std::pair<std::string, int>& place(int32_t line) const {
    return places_[static_cast<size_t>(line)];
  }

 private:
  bool is_own(PyObject* file);
  int32_t number_of(PyObject* file, int line);

  std::vector<std::string> foreign_;
  struct Hash {
    size_t operator()(const std::pair<PyObject*, int>& place) const {
      return std::hash<PyObject*>{}(place.first) * 31 + static_cast<size_t>(place.second);
    }
  };

  std::unordered_map<PyObject*, bool> known_;  // texts that are kept alive
  std::unordered_map<std::pair<PyObject*, int>, int32_t, Hash> found_;
  std::map<std::pair<std::string, int>, int32_t> numbers_;
  std::vector<std::pair<std::string, int>> places_;
};

struct State {
  Allocator base{};
  bool base_is_malloc = false;
  std::atomic<int64_t> limit{0};
  std::atomic<size_t> since_reading{0};
  std::atomic<size_t> between_readings{kBetweenReadings};
  ArrayLedger ledger;
  SharedPages shared;
  Lines lines;
  Refusal refusal;
  int64_t refusals = 0;
};

State& state() {
  static State& one = *new State;  // outlives all arrays
  return one;
}

thread_local bool looks = false;  // for a line: what Python allocates meanwhile has none

// Whether this thread may ask Python. The function is not in the stable interface.
bool holds_lock() {
  static const auto check = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return check != nullptr && check() == 1;
}

bool Lines::is_own(PyObject* file) {
  const auto at = known_.find(file);
  if (at != known_.end()) return at->second;
  const char* const text = PyUnicode_AsUTF8AndSize(file, nullptr);
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  const std::string_view name = text;
  bool own = !name.starts_with("<frozen ") && !name.starts_with("<__array_function__");
  for (const std::string& folder : foreign_) own = own && !name.starts_with(folder);
  Py_INCREF(file);
  known_.emplace(file, own);
  return own;
}

// Two texts may be of one file.
int32_t Lines::number_of(PyObject* file, int line) {
  const auto [found, is_new] = found_.try_emplace({file, line}, 0);
  if (!is_new) return found->second;
  const std::pair<std::string, int> place{PyUnicode_AsUTF8AndSize(file, nullptr), line};
  const auto [number, is_first] = numbers_.try_emplace(place, static_cast<int32_t>(places_.size()));
  if (is_first) places_.push_back(place);
  found->second = number->second;
  return number->second;
}

int32_t Lines::find() {
  if (looks || !holds_lock() || PyErr_Occurred() != nullptr) return 0;
  static PyObject* const back = PyUnicode_InternFromString("f_back");
  static PyObject* const file_name = PyUnicode_InternFromString("co_filename");
  looks = true;
  int32_t found = 0;
  auto* frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  Py_XINCREF(frame);
  while (frame != nullptr && frame != Py_None && found == 0) {
    auto* const of = reinterpret_cast<PyFrameObject*>(frame);
    PyObject* const code = reinterpret_cast<PyObject*>(PyFrame_GetCode(of));
    PyObject* const file = PyObject_GetAttr(code, file_name);
    Py_DECREF(code);
    if (file != nullptr && is_own(file)) {
      found = number_of(file, PyFrame_GetLineNumber(of));
    }
    Py_XDECREF(file);
    PyObject* const outer = PyObject_GetAttr(frame, back);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  PyErr_Clear();
  looks = false;
  return found;
}

// What realloc does not tell may leave the sum some bytes off.
int64_t small_now(const State& all) { return std::max<int64_t>(all.ledger.small(), 0); }

// Whether `bytes` more keep the process within its limit, arrays that are not filled yet included.
bool fits(State& all, size_t bytes, int64_t& taken, int64_t& unfilled) {
  const int64_t limit = all.limit.load(std::memory_order_relaxed);
  if (limit == 0) return true;
  const auto more = static_cast<int64_t>(bytes);
  if (more < 0 || more > limit) {
    taken = taken_exactly();
    return false;
  }
  const size_t since = all.since_reading.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (since < all.between_readings.load(std::memory_order_relaxed)) return true;
  all.since_reading.store(0, std::memory_order_relaxed);
  const int64_t tables = more / 256;
  const int64_t room = limit - taken_at_most() - all.ledger.unfilled_at_most() - more - tables;
  all.between_readings.store(
      std::max(kBetweenReadings, static_cast<size_t>(std::max<int64_t>(room, 0) / kPartOfRoom)),
      std::memory_order_relaxed);
  if (room >= 0) return true;
  for (const bool again : {false, true}) {
    if (again) give_back_free_pages();
    unfilled = all.ledger.measure_unfilled();
    const int64_t enough = limit - unfilled - more - tables;
    taken = taken_exactly(enough);
    if (taken <= enough) return true;
  }
  all.between_readings.store(0, std::memory_order_relaxed);  // the next one is looked at too
  return false;
}

void refuse(State& all, size_t bytes, int64_t taken, int64_t unfilled) {
  if (!holds_lock()) return;  // nobody can be told
  all.refusal = {bytes,
                 taken,
                 unfilled,
                 small_now(all),
                 all.lines.find(),
                 all.ledger.held(),
                 all.ledger.largest(kMostBlocks)};
  ++all.refusals;
}

// Counts what `make` made; nullptr where it may not, or cannot.
template <typename Make>
[[gnu::noinline]] void* large(State& all, size_t bytes, size_t more, const Make& make) {
  int64_t taken = 0;
  int64_t unfilled = 0;
  if (!fits(all, more, taken, unfilled)) {
    refuse(all, bytes, taken, unfilled);
    return nullptr;
  }
  void* const made = make();
  if (made != nullptr) all.ledger.add(made, bytes, all.lines.find());
  return made;
}

// Whether the C library's own functions allocate, and none that were put in front of them. Not
// asked is for malloc and free: an interpreter may stand in for them, where it only passes them on.
bool allocates_by_library() {
#ifdef __GLIBC__
  static const bool does = [] {
    Dl_info library{};
    if (::dladdr(reinterpret_cast<const void*>(&::gnu_get_libc_version), &library) == 0) {
      return false;
    }
    for (const char* const name : {"calloc", "realloc", "posix_memalign", "malloc_usable_size"}) {
      Dl_info of{};
      const void* const function = ::dlsym(RTLD_DEFAULT, name);
      if (function == nullptr || ::dladdr(function, &of) == 0) return false;
      if (of.dli_fbase != library.dli_fbase) return false;
    }
    return true;
  }();
  return does;
#else
  return false;
#endif
}

// Whether it has given a block pages of its own, which go back when it is freed: it says so in
// front of the block.
bool has_own_pages(const void* block) {
  constexpr size_t kIsMapped = 2;
  return allocates_by_library() && (static_cast<const size_t*>(block)[-1] & kIsMapped) != 0;
}

// As NumPy's default, aligned for others.
void* aligned(size_t bytes) {
  static const bool asks_for_huge = [] {
    const char* const said = std::getenv("NUMPY_MADVISE_HUGEPAGE");
    return said == nullptr || std::string_view(said) != "0";
  }();
  void* made = nullptr;
  if (::posix_memalign(&made, kAligned, bytes) != 0) return nullptr;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(made) + page - 1) / page * page;
  if (asks_for_huge) {
    ::madvise(reinterpret_cast<void*>(first), bytes - page, MADV_HUGEPAGE);
  }
  return made;
}

// The same, filled with zeros: pages that come from the kernel are.
void* aligned_zeros(size_t bytes) {
  auto* const made = static_cast<char*>(aligned(bytes));
  if (made == nullptr) return nullptr;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(made);
  char* const first = made + ((address + page - 1) / page * page - address);
  char* const last = made + ((address + bytes) / page * page - address);
  // The library can be told to write to what it hands out: such pages go.
  if (!has_own_pages(made) ||
      ::madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED) != 0) {
    return std::memset(made, 0, bytes);
  }
  std::memset(made, 0, static_cast<size_t>(first - made));
  std::memset(last, 0, static_cast<size_t>(made + bytes - last));
  return made;
}

// Small ones are counted before they are made: the rest is then a jump.
void* on_malloc(void* context, size_t bytes) {
  State& all = *static_cast<State*>(context);
  if (bytes >= kLarge) {
    return large(all, bytes, bytes, [&] {
      const bool is_own = all.base_is_malloc && bytes >= kReferredTo;
      return is_own ? aligned(bytes) : all.base.malloc(all.base.context, bytes);
    });
  }
  all.ledger.add_small(static_cast<int64_t>(bytes));
  return all.base.malloc(all.base.context, bytes);
}

void* on_calloc(void* context, size_t count, size_t each) {
  State& all = *static_cast<State*>(context);
  size_t bytes = 0;
  if (!__builtin_mul_overflow(count, each, &bytes)) {
    if (bytes >= kLarge) {
      return large(all, bytes, bytes, [&] {
        const bool is_own = all.base_is_malloc && bytes >= kReferredTo && allocates_by_library();
        return is_own ? aligned_zeros(bytes) : all.base.calloc(all.base.context, count, each);
      });
    }
    all.ledger.add_small(static_cast<int64_t>(bytes));
  }
  return all.base.calloc(all.base.context, count, each);
}

[[gnu::noinline]] void free_large(State& all, void* begin, size_t bytes) {
  if (begin != nullptr && all.ledger.remove(begin) == 0) {
    all.ledger.add_small(-static_cast<int64_t>(bytes));
  }
  if (bytes >= kReferredTo) all.shared.forget(begin);
  all.base.free(all.base.context, begin, bytes);
}

void on_free(void* context, void* begin, size_t bytes) {
  State& all = *static_cast<State*>(context);
  if (bytes >= kLarge) return free_large(all, begin, bytes);
  if (begin != nullptr) all.ledger.add_small(-static_cast<int64_t>(bytes));
  all.base.free(all.base.context, begin, bytes);
}

// NumPy does not tell how large a small array was.
void* on_realloc(void* context, void* begin, size_t bytes) {
  State& all = *static_cast<State*>(context);
  const auto make = [&] { return all.base.realloc(all.base.context, begin, bytes); };
  const size_t before = begin == nullptr ? 0 : all.ledger.remove(begin);
  if (before >= kReferredTo) all.shared.forget(begin);
  const size_t small_before =
      begin != nullptr && before == 0 && all.base_is_malloc ? ::malloc_usable_size(begin) : 0;
  void* made = nullptr;
  if (bytes >= kLarge) {
    made = large(all, bytes, bytes > before ? bytes - before : 0, make);
  } else {
    made = make();
    if (made != nullptr) all.ledger.add_small(static_cast<int64_t>(bytes));
  }
  if (made == nullptr && before != 0) {
    all.ledger.add(begin, before, all.lines.find());  // it stays as it was
  } else if (made != nullptr) {
    all.ledger.add_small(-static_cast<int64_t>(small_before));
  }
  return made;
}

Handler& our_handler() {
  static Handler handler{"plimsoll", 1, {&state(), on_malloc, on_calloc, on_realloc, on_free}};
  return handler;
}

// NumPy's table of functions; with an error of Python's where it has none that will do.
void** functions_of(PyObject* api) {
  auto** const table = static_cast<void**>(PyCapsule_GetPointer(api, nullptr));
  if (table == nullptr) return nullptr;
  if (reinterpret_cast<unsigned (*)()>(table[kFeatureVersion])() < kWithHandlers) {
    PyErr_SetString(PyExc_ImportError, "arrays are counted with NumPy 1.22 and later");
    return nullptr;
  }
  return table;
}

// (api, foreign folders): counts in this thread's context; the handler that was there.
PyObject* begin(PyObject*, PyObject* arguments) {
  PyObject* api = nullptr;
  PyObject* folders = nullptr;
  if (PyArg_ParseTuple(arguments, "OO!", &api, &PyTuple_Type, &folders) == 0) return nullptr;
  void** const table = functions_of(api);
  if (table == nullptr) return nullptr;
  std::vector<std::string> foreign;
  for (Py_ssize_t i = 0; i < PyTuple_Size(folders); ++i) {
    const char* const folder = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(folders, i), nullptr);
    if (folder == nullptr) return nullptr;
    foreign.emplace_back(folder);
  }
  PyObject* const there = reinterpret_cast<PyObject* (*)()>(table[kGetHandler])();
  if (there == nullptr) return nullptr;
  const auto* const base = static_cast<const Handler*>(PyCapsule_GetPointer(there, kCapsule));
  State& all = state();
  if (base == nullptr) {
    Py_DECREF(there);
    return nullptr;
  }
  if (base == &our_handler()) return there;
  if (all.base.malloc != nullptr &&
      std::memcmp(&all.base, &base->allocator, sizeof all.base) != 0) {
    Py_DECREF(there);
    PyErr_SetString(PyExc_RuntimeError, "another allocator of arrays has come since");
    return nullptr;
  }
  all.base = base->allocator;
  Py_INCREF(there);  // its functions are called as long as the process lives
  all.base_is_malloc = std::string_view(base->name) == "default_allocator";
  all.lines.set_foreign(std::move(foreign));
  PyObject* const ours = PyCapsule_New(&our_handler(), kCapsule, nullptr);
  PyObject* const before =
      ours == nullptr ? nullptr
                      : reinterpret_cast<PyObject* (*)(PyObject*)>(table[kSetHandler])(ours);
  Py_XDECREF(ours);
  Py_DECREF(there);
  return before;
}

// (api, handler): what `begin` returned is there again.
PyObject* end(PyObject*, PyObject* arguments) {
  PyObject* api = nullptr;
  PyObject* handler = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &api, &handler) == 0) return nullptr;
  void** const table = functions_of(api);
  if (table == nullptr) return nullptr;
  return reinterpret_cast<PyObject* (*)(PyObject*)>(table[kSetHandler])(handler);
}

PyObject* set_limit(PyObject*, PyObject* limit) {
  const long long bytes = PyLong_AsLongLong(limit);
  if (bytes == -1 && PyErr_Occurred() != nullptr) return nullptr;
  state().limit = bytes;
  state().between_readings = 0;
  Py_RETURN_NONE;
}

PyObject* list_of(const std::vector<Held>& held) {
  PyObject* const list = PyList_New(0);
  for (const Held& one : held) {
    const auto& [file, line] = state().lines.place(one.line);
    PyObject* const entry =
        Py_BuildValue("(siLLL)", file.c_str(), line, static_cast<long long>(one.bytes),
                      static_cast<long long>(one.arrays), static_cast<long long>(one.largest));
    if (list == nullptr || entry == nullptr || PyList_Append(list, entry) != 0) {
      Py_XDECREF(entry);
      Py_XDECREF(list);
      return nullptr;
    }
    Py_DECREF(entry);
  }
  return list;
}

PyObject* held(PyObject*, PyObject*) { return list_of(state().ledger.held()); }

PyObject* held_at_peak(PyObject*, PyObject*) { return list_of(state().ledger.held_at_peak()); }

PyObject* sums(PyObject*, PyObject*) {
  return Py_BuildValue("(LLL)", static_cast<long long>(small_now(state())),
                       static_cast<long long>(state().ledger.peak()),
                       static_cast<long long>(taken_exactly()));
}

PyObject* refusals(PyObject*, PyObject*) { return PyLong_FromLongLong(state().refusals); }

// The last one, of which there is one.
PyObject* refusal(PyObject*, PyObject*) {
  const Refusal& last = state().refusal;
  const auto& [file, line] = state().lines.place(last.line);
  PyObject* const blocks = PyList_New(0);
  for (const Block& one : last.blocks) {
    const auto& [of, at] = state().lines.place(one.line);
    PyObject* const entry = Py_BuildValue("(KLsi)", reinterpret_cast<unsigned long long>(one.begin),
                                          static_cast<long long>(one.bytes), of.c_str(), at);
    if (blocks == nullptr || entry == nullptr || PyList_Append(blocks, entry) != 0) return nullptr;
    Py_DECREF(entry);
  }
  return Py_BuildValue("(siKLLLNN)", file.c_str(), line,
                       static_cast<unsigned long long>(last.bytes),
                       static_cast<long long>(last.taken), static_cast<long long>(last.unfilled),
                       static_cast<long long>(last.small), list_of(last.held), blocks);
}

// (block, begin, bytes): a file with what the bytes of an array made here are now, and go on being
// there, and its name for give_back (array_pages.h); None where the block has no pages of its own.
PyObject* share(PyObject*, PyObject* arguments) {
  unsigned long long block = 0;
  unsigned long long begin = 0;
  unsigned long long bytes = 0;
  if (PyArg_ParseTuple(arguments, "KKK", &block, &begin, &bytes) == 0) return nullptr;
  State& all = state();
  const auto* const at = reinterpret_cast<const void*>(block);
  if (!all.base_is_malloc || !has_own_pages(at)) Py_RETURN_NONE;
  static const int watches_forks =
      ::pthread_atfork([] { state().shared.before_fork(); }, [] { state().shared.after_fork(); },
                       [] { state().shared.after_fork(); });
  if (watches_forks != 0) Py_RETURN_NONE;
  const auto made = all.shared.share(at, reinterpret_cast<void*>(begin), bytes);
  const int file = made.name == 0 ? -1 : ::fcntl(made.file->number(), F_DUPFD_CLOEXEC, 0);
  if (file >= 0) {
    return Py_BuildValue("(iK)", file, static_cast<unsigned long long>(made.name));
  }
  PyErr_SetFromErrno(PyExc_OSError);
  if (made.name != 0) all.shared.give_back(made.name);
  return nullptr;
}

// Called for a file that nobody refers to any more.
PyObject* give_back(PyObject*, PyObject* name) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(name);
  if (PyErr_Occurred() != nullptr) return nullptr;
  PyThreadState* const thread = PyEval_SaveThread();  // others go on meanwhile
  state().shared.give_back(number);
  PyEval_RestoreThread(thread);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"begin", begin, METH_VARARGS, "Counts arrays that this thread makes from now on."},
    {"end", end, METH_VARARGS, "Puts the handler that was there back."},
    {"set_limit", set_limit, METH_O, "Bytes of the whole process; 0: none."},
    {"held", held, METH_NOARGS, "(file, line, bytes, arrays, largest) of large arrays."},
    {"held_at_peak", held_at_peak, METH_NOARGS, "The same when they were most."},
    {"sums", sums, METH_NOARGS, "Bytes: small arrays, peak of large ones, the process."},
    {"share", share, METH_VARARGS, "A file of what an array holds now, which shares its pages."},
    {"give_back", give_back, METH_O,
     "The pages of such a file, by its name: they are the array's."},
    {"refusals", refusals, METH_NOARGS, "How many there were."},
    {"refusal", refusal, METH_NOARGS,
     "The last: (file, line, bytes, taken, unfilled, small, held, (address, bytes, file, line))."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "_arrays",
    "NumPy's arrays, counted.",
    -1,
    methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace
}  // namespace plimsoll::python

// NOLINTNEXTLINE(readability-identifier-naming): Python's
PyMODINIT_FUNC PyInit__arrays() { return PyModule_Create(&plimsoll::python::definition); }
