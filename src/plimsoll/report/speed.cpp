#include "report/speed.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "report/table.h"

namespace plimsoll::report {
namespace {

std::string line(const std::string& name, const std::string& program, const std::string& batch,
                 const std::string& median, const std::string& least, const std::string& samples,
                 const std::string& peak) {
  return fmt::format("{:<14} {:<9} {:>6}{:>12}{:>12}{:>13}{:>12}\n", name, program, batch, median,
                     least, samples, peak);
}

}  // namespace

std::string to_json(const Speed& speed) {
  nlohmann::ordered_json json = {
      {"workload", speed.name},
      {"program", speed.program},
      {"precision", speed.precision},
      {"isa", speed.isa},
      {"threads", speed.threads},
      {"parameters", speed.parameters},
      {"batch", speed.batch},
      {"steps", speed.steps},
      {"seconds_per_step", speed.median_seconds},
      {"least_seconds_per_step", speed.least_seconds},
      {"predicted_process_bytes", speed.predicted_process.count()},
      {"measured_process_bytes", speed.measured_process.count()},
      {"limit_bytes", nullptr},
      {"block_set", speed.block_set},
      {"kernel_set", speed.kernel_set},
  };
  if (speed.limit) json["limit_bytes"] = speed.limit->count();
  if (speed.profile) json["profile"] = nlohmann::ordered_json::parse(to_json(*speed.profile));
  if (speed.coverage) json["coverage"] = nlohmann::ordered_json::parse(to_json(*speed.coverage));
  return json.dump() + "\n";
}

std::string speed_header() {
  return line("workload", "program", "batch", "median", "least", "samples/s", "peak");
}

std::string to_line(const Speed& speed) {
  const double samples =
      speed.median_seconds > 0 ? static_cast<double>(speed.batch) / speed.median_seconds : 0;
  return line(speed.name, speed.program, std::to_string(speed.batch),
              format_seconds(speed.median_seconds), format_seconds(speed.least_seconds),
              format_count(static_cast<int64_t>(samples)), to_string(speed.measured_process));
}

}  // namespace plimsoll::report
