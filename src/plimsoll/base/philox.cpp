#include "base/philox.h"

#include <algorithm>

namespace plimsoll {
namespace {

// Blocks computed side by side, so that the compiler can use vector instructions.
constexpr size_t kLanes = 16;
constexpr size_t kWordsPerRun = 4 * kLanes;

struct Lanes {
  std::array<std::array<uint32_t, kLanes>, 4> words;
};

void run_rounds(Lanes& lanes, std::array<uint32_t, 2> key) {
  auto& [a, b, c, d] = lanes.words;
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kLanes; ++i) {
      const uint64_t left = uint64_t{0xD2511F53u} * a[i];
      const uint64_t right = uint64_t{0xCD9E8D57u} * c[i];
      a[i] = static_cast<uint32_t>(right >> 32) ^ b[i] ^ key[0];
      b[i] = static_cast<uint32_t>(right);
      c[i] = static_cast<uint32_t>(left >> 32) ^ d[i] ^ key[1];
      d[i] = static_cast<uint32_t>(left);
    }
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
}

}  // namespace

void Philox::fill_words(uint64_t first, std::span<uint32_t> destination) const {
  size_t done = 0;
  while (done < destination.size() && (first + done) % 4 != 0) {
    destination[done] = word(first + done);
    ++done;
  }
  for (; destination.size() - done >= kWordsPerRun; done += kWordsPerRun) {
    const uint64_t begin = (first + done) / 4;
    Lanes lanes;
    for (size_t i = 0; i < kLanes; ++i) {
      const uint64_t index = begin + i;
      lanes.words[0][i] = static_cast<uint32_t>(index);
      lanes.words[1][i] = static_cast<uint32_t>(index >> 32);
      lanes.words[2][i] = stream_[0];
      lanes.words[3][i] = stream_[1];
    }
    run_rounds(lanes, key_);
    for (size_t i = 0; i < kLanes; ++i) {
      for (size_t j = 0; j < 4; ++j) destination[done + 4 * i + j] = lanes.words[j][i];
    }
  }
  while (done < destination.size()) {
    const PhiloxBlock words = block((first + done) / 4);
    for (size_t j = 0; j < 4 && done < destination.size(); ++j) destination[done++] = words[j];
  }
}

void Philox::fill_uniform(uint64_t first, std::span<float> destination) const {
  std::array<uint32_t, 4 * kWordsPerRun> words;
  for (size_t done = 0; done < destination.size(); done += words.size()) {
    const size_t count = std::min(words.size(), destination.size() - done);
    fill_words(first + done, std::span(words).first(count));
    for (size_t i = 0; i < count; ++i) destination[done + i] = uniform_from(words[i]);
  }
}

void Philox::fill_normal(uint64_t first, std::span<float> destination) const {
  size_t done = 0;
  while (done < destination.size()) {
    const uint64_t index = first + done;
    const PhiloxBlock words = block(index / 4);
    for (size_t lane = index % 4; lane < 4 && done < destination.size(); ++lane, ++done) {
      const size_t pair = lane / 2 * 2;
      destination[done] = normal_pair_from(words[pair], words[pair + 1])[lane % 2];
    }
  }
}

}  // namespace plimsoll
