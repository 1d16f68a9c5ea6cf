#include "run/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

#include "base/accounted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "base/spill_folder.h"
#include "ops/fuse/shards.h"

namespace plimsoll::run {
namespace {

// What is wrong with a size is told of the option that it was given to.
Bytes read_size(const std::string& option, const std::string& text, Bytes whole) {
  try {
    return parse_bytes(text, whole);
  } catch (const Error& error) {
    constexpr std::string_view kPlace = "size: ";
    std::string_view message = error.message();
    if (message.starts_with(kPlace)) message.remove_prefix(kPlace.size());
    throw Error(error.kind(), option + ": " + std::string(message));
  }
}

// Steps of the search that the time for planning stands for: a constant a second, so that equal
// requests give equal plans on any machine.
int64_t plan_steps(const Settings& settings) {
  constexpr double kDefault = 2;
  return static_cast<int64_t>(settings.plan_time.value_or(kDefault) *
                              planning::kPlanStepsPerSecond);
}

struct NetworkUnit {
  std::string_view name;
  double factor;
};
constexpr std::array<NetworkUnit, 6> kRates = {{{"Gbit/s", 1e9 / 8},
                                                {"Mbit/s", 1e6 / 8},
                                                {"GiB/s", 1 << 30},
                                                {"MiB/s", 1 << 20},
                                                {"GB/s", 1e9},
                                                {"MB/s", 1e6}}};
constexpr std::array<NetworkUnit, 3> kTimes = {{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};
constexpr std::array<NetworkUnit, 1> kShares = {{{"%", 0.01}}};

// A positive number with one of the units; 0: it is none.
double read_amount(std::string_view text, std::span<const NetworkUnit> units) {
  for (const NetworkUnit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.name.size());
    double number = 0;
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, number);
    if (error == std::errc() && end == last && number > 0 && std::isfinite(number))
      return number * unit.factor;
  }
  return 0;
}

}  // namespace

std::optional<Bytes> parse_size(const std::string& option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "auto") return memory_safe_for_process();
  return read_size(option, text, memory_available_to_process());
}

std::optional<Bytes> parse_memory(const std::string& option, const std::string& text) {
  const std::optional<Bytes> size = parse_size(option, text);
  // Nobody means bytes by a bare number that no process fits into.
  constexpr Bytes kOfNoProcess = 64_KiB;
  const bool bare = text.find_first_not_of("0123456789") == std::string::npos;
  if (size && bare && *size > Bytes() && *size < kOfNoProcess) {
    throw Error(ErrorKind::kConfig,
                fmt::format("{0}: expected a size that a process fits into, received {1}, which "
                            "without a unit are {1} bytes. Did you mean {1}MiB?",
                            option, text));
  }
  return size;
}

std::optional<Bytes> parse_spill_limit(const std::string& option, const std::string& text,
                                       const std::string& spill_directory) {
  if (text.empty()) return std::nullopt;
  return read_size(option, text, free_space(choose_spill_folder(spill_directory)));
}

std::optional<double> parse_slowdown(const std::string& option, std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::string_view number = text;
  if (number.ends_with('x')) number.remove_suffix(1);
  double factor = 0;
  const char* const last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, factor);
  if (error != std::errc() || end != last || !(factor >= 1)) {
    throw Error(ErrorKind::kConfig, option + ": expected a factor from 1 on, as 1.5x, received \"" +
                                        std::string(text) + "\".");
  }
  return factor;
}

std::optional<int> parse_shard(const std::string& option, const std::string& text) {
  if (text == "auto") return std::nullopt;
  for (int stage = 0; stage <= ops::kMostShardStage; ++stage) {
    if (text == std::to_string(stage)) return stage;
  }
  throw Error(ErrorKind::kConfig, option + ": expected auto or a stage from 0 to " +
                                      std::to_string(ops::kMostShardStage) + ", received \"" +
                                      text + "\".");
}

planning::Network parse_network(const std::string& option, const std::string& text) {
  auto part = [rest = std::string_view(text)]() mutable {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view first = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    return first;
  };
  planning::Network network;
  network.bytes_per_second = read_amount(part(), kRates);
  network.seconds = read_amount(part(), kTimes);
  const std::string_view spread = part();
  network.spread = read_amount(spread, kShares);
  const bool is_spread = network.spread > 0 && network.spread < 1;
  if (network.bytes_per_second > 0 && network.seconds > 0 && (spread.empty() || is_spread) &&
      !text.ends_with(',') && std::ranges::count(text, ',') <= 2) {
    return network;
  }
  throw Error(ErrorKind::kConfig,
              option +
                  ": expected a rate and the time of a message's way, as in 10Gbit/s,30us, and "
                  "perhaps how much ranks differ, as in 10Gbit/s,30us,5%; received \"" +
                  text + "\".");
}

planning::PlanRequest plan_request(const Settings& settings) {
  constexpr int64_t kMostPlanBytes = int64_t{1} << 28;
  planning::PlanRequest request;
  request.limit = settings.memory;
  request.given = settings.given;
  request.exchange = settings.exchange;
  if (settings.ranks != nullptr) request.ranks = {settings.ranks->rank(), settings.ranks->count()};
  request.least_shard = settings.least_shard;
  request.backend = settings.backend;
  request.parts = settings.parts;
  request.threads = settings.threads;
  request.lanes = settings.lanes;
  request.seed = settings.seed;
  request.plan_steps = plan_steps(settings);
  request.extends = !settings.plan_time;
  request.max_slowdown = settings.max_slowdown;
  request.without = settings.without;
  if (!settings.plan.empty()) {
    const MemoryTag tag(MemoryPart::kStructures);
    request.saved_plan =
        std::make_shared<const std::string>(read_text_file(settings.plan, kMostPlanBytes));
  }
  request.spill = settings.spill;
  request.spill_directory = settings.spill_directory;
  request.spill_limit = settings.spill_limit;
  request.times = planning::named_times(settings.times, settings.tune);
  request.times.measure_rates = settings.measure_rates;
  return request;
}

train::SessionOptions session_options(const Settings& settings) {
  train::SessionOptions session;
  session.batch = settings.batch;
  session.ranks = settings.ranks;
  session.shard = settings.shard;
  session.plan = plan_request(settings);
  session.profile = settings.profile;
  session.guarded = settings.guarded;
  session.whole_process = settings.whole_process;
  return session;
}

}  // namespace plimsoll::run
