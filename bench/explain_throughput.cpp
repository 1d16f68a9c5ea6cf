// How fast the explainer reads, and in how much memory: logs of five kinds, made block by block and
// fed as a pipe would, each with a failure at its end. Prints one JSON line.
//
//   explain_throughput [MiB per kind, default 512]

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <string>
#include <string_view>

#include "explain/explainer.h"

namespace {

using plimsoll::explain::Explainer;
using plimsoll::explain::Explanation;

constexpr size_t kBlockBytes = size_t{1} << 18;
constexpr std::string_view kEnd =
    "\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 10.00 GiB total "
    "capacity; "
    "7.90 GiB already allocated; 1.10 GiB free; 8.10 GiB reserved in total by PyTorch)\n";

struct Kind {
  const char* name;
  std::string (*line)(uint64_t number);
};

std::string training_line(uint64_t i) {
  return "INFO:root:[" + std::to_string(i % 60) + "] loss=0.6931 accuracy=0.5012 lr=0.0010 batch " +
         std::to_string(i % 9973) + " of 9973 done in 0.183 seconds on worker " +
         std::to_string(i % 8) + "\n";
}

std::string progress_line(uint64_t i) {
  return "\rEpoch 1:  42%|####      | " + std::to_string(i % 9973) +
         "/9973 [01:22<01:54, 50.3it/s]" + (i % 97 == 0 ? "\n" : "");
}

std::string dump_line(uint64_t i) {
  return "2000-01-01 00:00:00.000000: I tensorflow/core/common_runtime/bfc_allocator.cc:1031] "
         "InUse at "
         "7f00950000 of size " +
         std::to_string(1280 + i % 4096) + " next " + std::to_string(i) + "\n";
}

std::string blob_line(uint64_t i) {
  std::string blob(4000, 'A');
  for (size_t at = 0; at < blob.size(); ++at) {
    blob[at] = static_cast<char>('A' + (at * 7 + i * 13) % 57);
  }
  return blob;  // one endless line
}

std::string refusal_line(uint64_t i) {
  return i % 8 == 0 ? std::string(kEnd.substr(1))
                    : "skipped batch " + std::to_string(i) + ", loss 0." + std::to_string(i % 97) +
                          " of 12 samples\n";
}

double seconds_of(const Kind& kind, int64_t bytes, bool& right) {
  std::string block;
  for (uint64_t i = 0; block.size() < kBlockBytes; ++i) block += kind.line(i);
  Explainer explainer;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t fed = 0; fed < bytes; fed += static_cast<int64_t>(block.size())) {
    explainer.feed(block);
  }
  explainer.feed(kEnd);
  const Explanation explanation = explainer.finish();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  right = right && explanation.bytes == int64_t{2} << 30;
  return taken.count();
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t mib = argc > 1 ? std::atoll(argv[1]) : 512;
  const int64_t bytes = mib << 20;
  static constexpr Kind kKinds[] = {{"training", training_line},
                                    {"progress", progress_line},
                                    {"dump", dump_line},
                                    {"one_line", blob_line},
                                    {"refusals", refusal_line}};
  bool right = true;
  double total = 0;
  const std::clock_t cpu_begin = std::clock();
  std::string rates;
  for (const Kind& kind : kKinds) {
    const double seconds = seconds_of(kind, bytes, right);
    total += seconds;
    char text[96];
    std::snprintf(text, sizeof text, "\"%s_mb_per_second\": %.0f, ", kind.name,
                  static_cast<double>(bytes) / 1e6 / seconds);
    rates += text;
  }
  const double cpu_seconds =
      static_cast<double>(std::clock() - cpu_begin) / static_cast<double>(CLOCKS_PER_SEC);
  const int64_t all_bytes = static_cast<int64_t>(std::size(kKinds)) * bytes;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"bench\": \"explain_throughput\", \"bytes\": %lld, \"seconds\": %.3f, "
      "\"cpu_seconds\": %.3f, \"mb_per_cpu_second\": %.0f, %s"
      "\"peak_rss_bytes\": %lld, \"found\": %s}\n",
      static_cast<long long>(all_bytes), total, cpu_seconds,
      static_cast<double>(all_bytes) / 1e6 / cpu_seconds, rates.c_str(),
      static_cast<long long>(usage.ru_maxrss) * 1024, right ? "true" : "false");
  return right ? 0 : 1;
}
