// Logs that nobody would write by hand: they may cost time, never memory, and nothing of them
// reaches a terminal unseen.

#include <algorithm>
#include <string>

#include "explain/explainer.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

using namespace std::string_literals;

constexpr std::string_view kOom =
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 10.00 GiB total "
    "capacity; "
    "7.90 GiB already allocated; 1.10 GiB free; 8.10 GiB reserved in total by PyTorch)\n";

void expect_printable(const std::string& text) {
  for (size_t at = 0; at < text.size(); ++at) {
    const auto c = static_cast<uint8_t>(text[at]);
    ASSERT_TRUE(c >= 0x20 || c == '\n') << "byte " << int{c} << " at " << at;
    ASSERT_NE(c, 0x7f);
    // C1 controls in UTF-8
    if (c == 0xc2 && at + 1 < text.size()) {
      ASSERT_GE(static_cast<uint8_t>(text[at + 1]), 0xa0);
    }
  }
}

TEST(HostileLogs, NeverEchoEscapes) {
  std::string log =
      "\x1b]0;owned\x07\x1b[31mRuntimeError: CUDA out of memory. Tried to allocate "
      "2.00 GiB\x1b[0m (GPU 0; 10.00 GiB total capacity; 7.90 GiB already allocated; "
      "1.10 GiB free)\x9b\x31m \x1bP payload \x1b\\ \xc2\x9b 31m \xe2\x80\xae reversed";
  log.push_back('\0');
  log += "\x7f\b\b\b\n";
  const Explanation explanation = explain_text(log);
  EXPECT_EQ(explanation.bytes, int64_t{2} << 30);
  const std::string text = to_text(explanation, "log\x1b[2J.txt");
  expect_printable(text);
  EXPECT_EQ(text.find("owned"), std::string::npos);
  expect_printable(to_json(explanation, "log\x1b[2J.txt"));
}

TEST(HostileLogs, CarryNulsAndBrokenUtf8) {
  std::string log("\0\xff\xfe\xc3\x28 garbage \xf5\x80\x80\x80\n"s);
  log += kOom;
  log += std::string(5000, '\xfe') + "\n";
  const Explanation explanation = explain_text(log);
  EXPECT_EQ(explanation.bytes, int64_t{2} << 30);
  expect_printable(to_text(explanation, ""));
}

TEST(HostileLogs, OneLineOfManyMegabytes) {
  Explainer explainer;
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 64; ++i) explainer.feed(block);
  explainer.feed(kOom.substr(0, 60));
  explainer.feed(kOom.substr(60));
  for (int i = 0; i < 8; ++i) explainer.feed(block);
  const Explanation explanation = explainer.finish();
  EXPECT_EQ(explanation.bytes, int64_t{2} << 30);
  EXPECT_EQ(explanation.evidence.at(0).line, 1);
}

TEST(HostileLogs, BlocksOfAnySizeSayTheSame) {
  std::string log = "Epoch 1/3\r\n";
  for (int i = 0; i < 300; ++i) log += std::to_string(i) + "/500 [=>....] - loss: 1\r";
  log += "\n";
  log += kOom;
  const Explanation whole = explain_text(log);
  for (size_t size : {1u, 2u, 3u, 7u, 64u, 4095u, 4096u, 4097u}) {
    Explainer explainer;
    for (size_t at = 0; at < log.size(); at += size) {
      explainer.feed(std::string_view(log).substr(at, size));
    }
    EXPECT_EQ(explainer.finish(), whole) << size;
  }
}

TEST(HostileLogs, FloodsOfOneKindHideNothing) {
  Explainer explainer;
  std::string flood;
  while (flood.size() < (1 << 20)) {
    flood += "W cpu_allocator_impl.cc:82] Allocation of 1006632960 exceeds 10% of system memory.\n";
  }
  for (int i = 0; i < 8; ++i) explainer.feed(flood);
  explainer.feed(kOom);
  for (int i = 0; i < 8; ++i) explainer.feed(flood);
  const Explanation explanation = explainer.finish();
  EXPECT_EQ(explanation.verdict, Verdict::kFailure);
  EXPECT_EQ(explanation.bytes, int64_t{2} << 30);
}

TEST(HostileLogs, NumbersBeyondAllSense) {
  const std::string nines(400, '9');
  for (const std::string& log :
       {"Tried to allocate " + nines + " GiB (GPU 0; " + nines + " GiB total capacity; 1 GiB free)",
        "OOM when allocating tensor with shape[" + nines + "," + nines + "] and type float",
        "OOM when allocating tensor with shape[" + std::string(3000, '[') + "]",
        "InUse at 7f of size " + nines + " next 1\n" + nines + " Chunks of size " + nines +
            " totalling 1.0GiB\nAllocator (GPU_0_bfc) ran out of memory trying to allocate 1.0GiB",
        "NumAllocs: " + nines + "\nLimit: " + nines + "\nInUse: " + nines + "\n",
        "Created TensorFlow device (x with " + nines +
            " MB memory)\nTried to allocate 0.00 MiB. GPU "
            "0 has a total capacity of 0 bytes of which 0 bytes is free. CUDA out of memory.",
        "Received message larger than max (" + nines + " vs. " + nines + ")",
        "[[Node: " + std::string(100000, 'a') + " OOM when allocating tensor with shape[1"}) {
    const Explanation explanation = explain_text(log);
    expect_printable(to_text(explanation, ""));
    EXPECT_FALSE(to_json(explanation, "").empty());
  }
}

TEST(HostileLogs, WrapsPrefixesAndQuotesChangeNothing) {
  const std::string oom(kOom.substr(0, kOom.size() - 1));
  const Explanation plain = explain_text(oom);
  std::string wrapped;
  for (size_t at = 0; at < oom.size(); at += 80) wrapped += oom.substr(at, 80) + "\n";
  std::string spread = oom;
  spread.insert(spread.find("allocate"), std::string(30, ' '));
  for (const std::string& log :
       {wrapped, "> " + oom, "# > " + oom, "[rank7]: " + oom, "(train pid=489, ip=10.0.0.1) " + oom,
        "E   " + oom, spread, "2024-01-01T00:00:00.123456789Z stderr F " + oom, "web-1  | " + oom,
        "100%|####| 7/7 [00:01<00:00]" + oom}) {
    const Explanation explanation = explain_text(log);
    EXPECT_EQ(explanation.bytes, plain.bytes) << log;
    EXPECT_EQ(explanation.device, plain.device) << log;
    EXPECT_EQ(explanation.amounts, plain.amounts) << log;
    EXPECT_EQ(explanation.cause_label, plain.cause_label) << log;
  }
}

}  // namespace
}  // namespace plimsoll::explain
