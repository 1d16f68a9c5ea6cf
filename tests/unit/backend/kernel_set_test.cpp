#include <gtest/gtest.h>

#include "backend/kernel/backends.h"
#include "unit/base/expect_error.h"

namespace plimsoll::backend {
namespace {

using test::expect_error;

TEST(KernelSet, RoundTrips) {
  for (const std::string id : {"reference/t1", "reference/t1;batch<=4;units<=8;block_set=2",
                               "onednn-3.2/r1/avx512_bf16/t12;batch<=64"}) {
    const KernelSetOptions options = parse_kernel_set(id);
    EXPECT_EQ(kernel_set_id(id.substr(0, id.rfind("/t")), options), id);
  }
}

TEST(KernelSet, ReadsWhatItSpells) {
  EXPECT_EQ(parse_kernel_set("reference/t2;units<=8;batch<=4;block_set=1"),
            (KernelSetOptions{.parts = 2, .block_set = 1, .caps = {{"batch", 4}, {"units", 8}}}));
}

TEST(KernelSet, IsWhatTheCatalogSays) {
  const auto backend = make_backend("reference", {.threads = 3, .caps = {{"batch", 4}}});
  EXPECT_EQ(backend->catalog().kernel_set(), "reference/t1;batch<=4");
  const auto null = make_backend("null", {.block_set = 2});
  EXPECT_EQ(null->catalog().kernel_set(), "null/t1;block_set=2");
  EXPECT_EQ(null->catalog().block_set(), 2);
}

TEST(KernelSet, RefusesOtherTexts) {
  for (const char* id : {"", "reference", "reference/t0", "reference/tx", "/t1", "reference/t1;;",
                         "reference/t1;batch", "reference/t1;batch<=0", "reference/t1;<=4",
                         "reference/t1;block_set=-1", "reference/t1;block_set=63",
                         "reference/t1;batch<=99999999999999999999"}) {
    expect_error(ErrorKind::kConfig, "kernel set", [&] { parse_kernel_set(id); });
  }
}

TEST(Backends, UnknownNamesGetADidYouMean) {
  expect_error(ErrorKind::kConfig, "Did you mean \"reference\"?",
               [] { make_backend("refrence", {}); });
}

TEST(Backends, BadOptionsAreRefused) {
  expect_error(ErrorKind::kConfig, "threads", [] { make_backend("null", {.threads = -1}); });
  expect_error(ErrorKind::kConfig, "parts", [] { make_backend("null", {.parts = -1}); });
  expect_error(ErrorKind::kConfig, "block set", [] { make_backend("null", {.block_set = -1}); });
  expect_error(ErrorKind::kConfig, "cap of axis \"batch\"", [] {
    make_backend("null", {.caps = {{"batch", 0}}});
  });
}

TEST(Backends, ABuildWithoutOnednnSaysSo) {
  if (default_backend() == "onednn") {
    EXPECT_EQ(make_backend("onednn", {})->name(), "onednn");
  } else {
    EXPECT_EQ(default_backend(), "cpu");
    expect_error(ErrorKind::kBackend, "-DPLIMSOLL_ONEDNN=ON", [] { make_backend("onednn", {}); });
  }
}

TEST(Backends, CpuIsInEveryBuildAndNoOtherBackendsName) {
  const auto cpu = make_backend("cpu", {.threads = 2});
  EXPECT_EQ(cpu->name(), "cpu");
  EXPECT_TRUE(cpu->computes());
  EXPECT_EQ(cpu->catalog().kernel_set().rfind("cpu/r", 0), 0u);
  const auto best = make_backend(default_backend(), {.threads = 2});
  EXPECT_EQ(best->catalog().kernel_set() == cpu->catalog().kernel_set(),
            default_backend() == "cpu");
}

}  // namespace
}  // namespace plimsoll::backend
