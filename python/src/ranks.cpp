#include "ranks.h"

#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/process_memory.h"
#include "base/threads/fork.h"
#include "ranks/ranks.h"
#include "run/request.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace plimsoll::python {
namespace {

// The other ranks from joining until the program ends. What their library took when it was joined
// is held by the process; what it may take later is the exchange's.
class Group {
 public:
  static nb::object join(double timeout_seconds) {
    const Bytes before = read_process_memory().now();
    std::unique_ptr<ranks::JoinedRanks> joined;
    {
      const nb::gil_scoped_release release;
      const auto end = [](const std::string& why) {
        std::fprintf(stderr, "plimsoll: %s\n", why.c_str());
        _exit(1);
      };
      joined = ranks::join({.timeout_seconds = timeout_seconds, .late = end});
    }
    if (joined == nullptr) return nb::none();
    auto group = std::make_unique<Group>();
    const Bytes taken = read_process_memory().now() - before;
    group->later_ = std::max(joined->held() - taken, Bytes(1 << 20));
    group->joined_ = std::move(joined);
    return nb::cast(group.release(), nb::rv_policy::take_ownership);
  }

  int rank() const { return joined().rank(); }
  int count() const { return joined().count(); }
  std::string library() const { return joined().library(); }

  // A rank's bytes, on all.
  nb::bytes share(const nb::bytes& own, int from) {
    int64_t size = static_cast<int64_t>(own.size());
    std::unique_ptr<std::byte[]> room;
    {
      const nb::gil_scoped_release release;
      hand_round(from, std::as_bytes(std::span(&size, 1)),
                 std::as_writable_bytes(std::span(&size, 1)));
      const auto count = static_cast<size_t>(size);
      if (rank() == from) {
        hand_round(from, {reinterpret_cast<const std::byte*>(own.data()), count}, {});
      } else {
        room = std::make_unique<std::byte[]>(std::max<size_t>(count, 1));
        hand_round(from, {}, {room.get(), count});
      }
    }
    if (rank() == from) return own;
    return nb::bytes(room.get(), static_cast<size_t>(size));
  }

  bool any(bool flag) {
    const nb::gil_scoped_release release;
    return any_rank(joined(), flag);
  }

  // Raises an error that names what differs, and both values.
  void expect_equal(const std::string& what, const std::string& own) {
    const nb::gil_scoped_release release;
    expect_equal_on(joined(), what, own);
  }

  void settle(run::Settings& settings) const {
    settings.ranks = joined_.get();
    settings.exchange = later_;
    settings.shard = 0;
    if (settings.lanes == 0) settings.lanes = count();
  }

  // `failed`: the library is left as it is, since it would wait for ranks that wait for this one.
  void leave(bool failed) {
    const nb::gil_scoped_release release;
    if (failed) {
      joined_.release();
    } else {
      joined_.reset();
    }
  }

 private:
  ranks::JoinedRanks& joined() const {
    refuse_in_child("ranks");
    if (joined_ == nullptr)
      throw Error(ErrorKind::kBackend,
                  "ranks: expected them to be joined, received a program that has left them.");
    return *joined_;
  }

  // From one rank to each other one.
  void hand_round(int from, std::span<const std::byte> out, std::span<std::byte> in) {
    ranks::JoinedRanks& ranks = joined();
    for (int peer = 0; peer < ranks.count(); ++peer) {
      if (peer == from) continue;
      if (ranks.rank() == from) ranks.swap(peer, out, {});
      if (ranks.rank() == peer) ranks.swap(from, {}, in);
    }
    ranks.check();
  }

  std::unique_ptr<ranks::JoinedRanks> joined_;
  Bytes later_;
};

}  // namespace

void bind_ranks(nb::module_& module) {
  nb::class_<Group>(module, "Group")
      .def_prop_ro("rank", &Group::rank)
      .def_prop_ro("count", &Group::count)
      .def_prop_ro("library", &Group::library)
      .def("share", &Group::share, "own"_a, "rank"_a = 0)
      .def("any", &Group::any, "flag"_a)
      .def("expect_equal", &Group::expect_equal, "what"_a, "own"_a)
      .def("settle", &Group::settle, "settings"_a)
      .def("leave", &Group::leave, "failed"_a);
  module.def("launched_rank", &ranks::launched_rank,
             "Which of several processes of a launcher this is; 0 where it is the only one.");
  module.def("join_ranks", &Group::join, "timeout"_a,
             "The other ranks; None where no launcher started this process, or it alone.");
}

}  // namespace plimsoll::python
