#pragma once

// Settings as the planner and a session take them, and the texts that a person gives for sizes.

#include <optional>
#include <string>

#include "base/bytes.h"
#include "planning/request.h"
#include "run/request.h"
#include "train/session.h"

namespace plimsoll::run {

// "512MiB", "75%" of what the process may use, "auto": what others leave now. `option` is named in
// errors (kConfig).
std::optional<Bytes> parse_memory(const std::string& option, const std::string& text);
// The same of another size, which may be small.
std::optional<Bytes> parse_size(const std::string& option, const std::string& text);
// "20GiB", "50%" of what is free in the folder for spill files.
std::optional<Bytes> parse_spill_limit(const std::string& option, const std::string& text,
                                       const std::string& spill_directory);
// "1.5x" or "1.5": a factor from 1 on (kConfig).
std::optional<double> parse_slowdown(const std::string& option, std::string_view text);

// "auto" (none), or the number of a stage of sharding.
std::optional<int> parse_shard(const std::string& option, const std::string& text);

// "10Gbit/s,30us": bits (or bytes: "1.2GB/s") in a second, and the time of a message's way.
planning::Network parse_network(const std::string& option, const std::string& text);

// Reads the saved plan's file, where one is named (kIo).
planning::PlanRequest plan_request(const Settings& settings);
train::SessionOptions session_options(const Settings& settings);

}  // namespace plimsoll::run
