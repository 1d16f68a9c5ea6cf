// PyTorch's memory snapshots: a pickle of plain data, read without executing anything.

#include <string>

#include "explain/explainer.h"
#include "gtest/gtest.h"

namespace plimsoll::explain {
namespace {

// Writes the opcodes that Python's pickler uses for plain data, protocol 4.
class Pickle {
 public:
  Pickle() : bytes_("\x80\x04") {}
  Pickle& text(const std::string& value) {
    bytes_ += '\x8c';
    bytes_ += static_cast<char>(value.size());
    bytes_ += value + '\x94';
    return *this;
  }
  Pickle& number(uint64_t value) {
    bytes_ += '\x8a';
    bytes_ += '\x08';
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  Pickle& op(const std::string& opcodes) {
    bytes_ += opcodes;
    return *this;
  }
  Pickle& begin_dict() { return op("}\x94("); }
  Pickle& end_dict() { return op("u"); }
  Pickle& begin_list() { return op("]\x94("); }
  Pickle& end_list() { return op("e"); }
  Pickle& block(const char* state, uint64_t size) {
    begin_dict().text("state").text(state).text("size").number(size).text("frames").begin_list();
    begin_dict().text("name").text("forward").text("filename").text("net.py").text("line");
    return number(31).end_dict().end_list().end_dict();
  }
  std::string done() { return bytes_ + "."; }

 private:
  std::string bytes_;
};

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string snapshot() {
  Pickle pickle;
  pickle.begin_dict().text("segments").begin_list();
  for (int i = 0; i < 4; ++i) {
    pickle.begin_dict().text("total_size").number(512 * kMiB).text("blocks").begin_list();
    pickle.block("active_allocated", 312 * kMiB).block("inactive", 200 * kMiB);
    pickle.end_list().end_dict();
  }
  pickle.end_list().text("device_traces").begin_list().begin_list();
  pickle.begin_dict().text("action").text("oom").text("size").number(600 * kMiB);
  pickle.text("device_free").number(64 * kMiB).end_dict();
  return pickle.end_list().end_list().end_dict().done();
}

TEST(TorchSnapshot, AddsUpSegmentsAndBlocks) {
  const Explanation explanation = explain_text(snapshot());
  EXPECT_EQ(explanation.family, "torch_snapshot");
  EXPECT_EQ(explanation.bytes, int64_t{600 * kMiB});
  EXPECT_EQ(explanation.amounts.held, int64_t{2048 * kMiB});
  EXPECT_EQ(explanation.amounts.in_use, int64_t{1248 * kMiB});
  EXPECT_EQ(explanation.amounts.pool_free, int64_t{800 * kMiB});
  EXPECT_EQ(explanation.amounts.largest_free, int64_t{200 * kMiB});
  EXPECT_EQ(explanation.cause_label, Cause::kFragmentation);
  ASSERT_FALSE(explanation.evidence.empty());
  EXPECT_NE(explanation.evidence[0].text.find("net.py:31 forward"), std::string::npos);
}

TEST(TorchSnapshot, ComesInBlocksOfAnySize) {
  const std::string bytes = snapshot();
  const Explanation whole = explain_text(bytes);
  for (size_t size : {1u, 2u, 5u, 100u}) {
    Explainer explainer;
    for (size_t at = 0; at < bytes.size(); at += size) explainer.feed(bytes.substr(at, size));
    EXPECT_EQ(explainer.finish(), whole);
  }
}

TEST(TorchSnapshot, NeverExecutesAndNeverTrusts) {
  // os.system("true") as a pickle: the name of code ends the reading.
  const std::string attack = std::string("\x80\x04") + "cos\nsystem\n(X\x04\x00\x00\x00trueR.";
  const Explanation explanation = explain_text(attack);
  EXPECT_EQ(explanation.verdict, Verdict::kNoFailure);
  EXPECT_FALSE(explanation.collect.empty());
  // Truncated anywhere, or with any byte changed, it is still read without harm.
  const std::string bytes = snapshot();
  for (size_t cut = 0; cut < bytes.size(); cut += 3) explain_text(bytes.substr(0, cut));
  for (size_t at = 2; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    explain_text(changed);
  }
}

}  // namespace
}  // namespace plimsoll::explain
