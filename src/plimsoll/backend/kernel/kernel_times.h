#pragma once

// Seconds of kernel calls as they were measured on this machine, and a catalog that answers from
// them.
//
// They stand in for a backend's estimates where plans are chosen, and nowhere else: blocks, kernels
// and scratch are the backend's own, so that no result depends on a measurement. What was not
// measured is the backend's estimate times a factor: of the same node's other calls, or else of the
// operator's; without either, times the machine's rate for such calls; without any it is the
// estimate.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/kernel_catalog.h"

namespace plimsoll::backend {

// What a node's kernel is made for: operator, attributes, types per sample, without any extents.
uint64_t node_key(const graph::Graph& graph, graph::NodeId node, int64_t batch);
// And of a call of these concrete extents.
uint64_t call_key(uint64_t node_key, std::span<const int64_t> extents);
uint64_t operator_key(const graph::Graph& graph, graph::NodeId node);

// What rates are kept by: calls of one operator, its function or kind of window, and precision,
// with about as much arithmetic per byte, whose operands lie alike (in a thread's cache, in the
// others, in memory); and those of one family of operators.
struct RateKeys {
  uint64_t alike = 0;   // operator and kind, precision, arithmetic per byte, where operands lie
  uint64_t kind = 0;    // operator and kind, precision
  uint64_t named = 0;   // operator, precision
  uint64_t family = 0;  // family, pass, precision, where operands lie

  std::array<uint64_t, 4> closest_first() const { return {alike, kind, named, family}; }
};
RateKeys rate_keys(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                   std::span<const int64_t> extents);
// To the nearest step of 2^(1/4), so that two measurements of one machine are mostly one number.
double rounded_rate(double number);

// Numbers by key.
class KeyedNumbers {
 public:
  static constexpr size_t kMost = size_t{1} << 14;

  // Null: none of that key.
  const double* find(uint64_t key) const;
  // In place of one of that key; where there are kMost, nothing new is taken.
  void set(uint64_t key, double number);
  // By rising key.
  std::span<const std::pair<uint64_t, double>> entries() const { return entries_; }
  friend bool operator==(const KeyedNumbers&, const KeyedNumbers&) = default;

 private:
  std::vector<std::pair<uint64_t, double>> entries_;
};

// Bytes a second of spill files in a folder.
struct DiskSpeed {
  std::string folder;
  double read = 0;
  double write = 0;
  friend bool operator==(const DiskSpeed&, const DiskSpeed&) = default;
};

struct KernelTimes {
  std::string date{};      // "2026-05-28"
  KeyedNumbers seconds{};  // of calls, by call_key
  KeyedNumbers factors{};  // measured over estimated, by node_key and by operator_key
  std::string rated{};     // when the rates were measured; empty: they were not
  KeyedNumbers rates{};    // measured over estimated, by the numbers of RateKeys
  double copied = 0;       // bytes a second from memory to memory; 0: not measured
  double streamed = 0;  // bytes a second that all threads together read or write there; 0: as well
  std::vector<DiskSpeed> disks{};
  friend bool operator==(const KernelTimes&, const KernelTimes&) = default;
};

// Answers as `catalog` does, but for times; keeps a reference to it. `spill_folder`: where a spill
// file would be; empty: nowhere.
std::unique_ptr<graph::KernelCatalog> make_timed_catalog(const graph::KernelCatalog& catalog,
                                                         std::shared_ptr<const KernelTimes> times,
                                                         const std::string& spill_folder);

}  // namespace plimsoll::backend
