#include "report/estimates.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "report/table.h"
#include "report/units.h"

namespace plimsoll::report {
namespace {

using Json = nlohmann::ordered_json;

struct Weighed {
  double factor = 1;
  double seconds = 0;
};

// The least factor that so much of the time is within; `sorted` by rising factor.
double factor_within(std::span<const Weighed> sorted, double share) {
  double all = 0;
  for (const Weighed& each : sorted) all += each.seconds;
  double sum = 0;
  for (const Weighed& each : sorted) {
    sum += each.seconds;
    if (sum >= share * all) return each.factor;
  }
  return sorted.back().factor;
}

EstimateError error_of(const std::string& family, std::span<const KernelEstimate* const> kernels) {
  EstimateError error{family, std::ssize(kernels)};
  std::vector<Weighed> sorted;
  for (const KernelEstimate* kernel : kernels) {
    error.seconds += kernel->seconds;
    error.estimated += kernel->estimated;
    const double factor = kernel->seconds / kernel->estimated;
    sorted.push_back({std::max(factor, 1 / factor), kernel->seconds});
  }
  std::ranges::stable_sort(sorted, {}, &Weighed::factor);
  error.median_factor = factor_within(sorted, 0.5);
  error.most_factor = factor_within(sorted, 0.95);
  return error;
}

bool take_number(std::string_view& text, double& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

}  // namespace

std::vector<KernelEstimate> kernel_estimates(const Profile& profile) {
  std::vector<KernelEstimate> estimates;
  const auto longest = std::ranges::max_element(profile.programs, {}, &ProgramProfile::seconds);
  if (longest == profile.programs.end() || longest->runs == 0) return estimates;
  const auto runs = static_cast<double>(longest->runs);
  for (const ProfileRow& row : longest->rows) {
    if (row.family.empty() || row.seconds <= 0 || row.estimated <= 0 || row.bytes <= 0) continue;
    estimates.push_back(
        {row.family + (row.bf16 ? ", bf16" : ""), row.seconds / runs, row.estimated / runs});
  }
  return estimates;
}

std::string print_estimates(std::span<const KernelEstimate> estimates) {
  std::string text;
  for (const KernelEstimate& each : estimates) {
    text += fmt::format("{:.9g} {:.9g} {}\n", each.seconds, each.estimated, each.family);
  }
  return text;
}

std::vector<KernelEstimate> parse_estimates(std::string_view text) {
  std::vector<KernelEstimate> estimates;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    KernelEstimate each;
    if (!take_number(line, each.seconds) || !take_number(line, each.estimated)) continue;
    if (each.seconds <= 0 || each.estimated <= 0) continue;
    each.family = line;
    estimates.push_back(std::move(each));
  }
  return estimates;
}

std::vector<EstimateError> estimate_errors(std::span<const KernelEstimate> estimates) {
  std::map<std::string, std::vector<const KernelEstimate*>> families;
  std::vector<const KernelEstimate*> all;
  for (const KernelEstimate& each : estimates) {
    families[each.family].push_back(&each);
    all.push_back(&each);
  }
  std::vector<EstimateError> errors;
  for (const auto& [family, kernels] : families) errors.push_back(error_of(family, kernels));
  std::ranges::stable_sort(errors, std::ranges::greater(), &EstimateError::seconds);
  if (!all.empty()) errors.push_back(error_of("all", all));
  return errors;
}

std::string to_text(const std::string& title, std::span<const EstimateError> errors) {
  double longest = 0;
  for (const EstimateError& error : errors) longest = std::max(longest, error.seconds);
  const Unit unit = time_unit(longest);
  Table table({title, "kernels", std::string("step, ") + unit.name,
               std::string("estimated, ") + unit.name, "median factor", "95 % within"});
  for (const EstimateError& error : errors) {
    table.add({"  " + error.family, std::to_string(error.kernels), in_unit(error.seconds, unit),
               in_unit(error.estimated, unit), fmt::format("{:.2f}", error.median_factor),
               fmt::format("{:.2f}", error.most_factor)});
  }
  return table.print();
}

std::string to_json(const std::string& network, std::span<const EstimateError> errors) {
  Json json;
  json["network"] = network;
  json["families"] = Json::array();
  for (const EstimateError& error : errors) {
    json["families"].push_back({{"family", error.family},
                                {"kernels", error.kernels},
                                {"seconds", error.seconds},
                                {"estimated_seconds", error.estimated},
                                {"median_factor", error.median_factor},
                                {"factor_95", error.most_factor}});
  }
  return json.dump();
}

}  // namespace plimsoll::report
