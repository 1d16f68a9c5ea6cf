#pragma once

// How far estimated times of kernels are from measured ones, by family of operators.
//
// Kernels are weighed by the time that they took: of those whose estimate is off by at most the
// median factor half of a family's time was spent in, of those within the other one 95 %. A factor
// is the larger of measured over estimated and its inverse.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/profile.h"

namespace plimsoll::report {

// One kernel of one network.
struct KernelEstimate {
  std::string family;  // "convolution", and with bfloat16 numbers "convolution, bf16"
  double seconds = 0;  // a step
  double estimated = 0;
  friend bool operator==(const KernelEstimate&, const KernelEstimate&) = default;
};

struct EstimateError {
  std::string family;
  int64_t kernels = 0;
  double seconds = 0;  // a step, of all of them
  double estimated = 0;
  double median_factor = 1;
  double most_factor = 1;  // for 95 % of the time
};

// Takes the program that took longest; views and what is no kernel are left out.
std::vector<KernelEstimate> kernel_estimates(const Profile& profile);
// A line each, and back; what is no such line is left out.
std::string print_estimates(std::span<const KernelEstimate> estimates);
std::vector<KernelEstimate> parse_estimates(std::string_view text);

// By family, the longest first, and "all" as the last. Empty: there are no kernels.
std::vector<EstimateError> estimate_errors(std::span<const KernelEstimate> estimates);

// A table with a title above the families.
std::string to_text(const std::string& title, std::span<const EstimateError> errors);
// {"network", "families": [{"family", "kernels", "seconds", "estimated_seconds", "median_factor",
// "factor_95"}]} in one line; `network` is "all" for all of them together.
std::string to_json(const std::string& network, std::span<const EstimateError> errors);

}  // namespace plimsoll::report
