#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "graph/lanes.h"

namespace plimsoll::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".ckpt";
constexpr int kDigits = 15;

std::string file_name(int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return std::string(kPrefix) + digits + std::string(kSuffix);
}

bool is_checkpoint(const std::string& name) {
  return name.size() == kPrefix.size() + kDigits + kSuffix.size() && name.starts_with(kPrefix) &&
         name.ends_with(kSuffix) &&
         name.find_first_not_of("0123456789", kPrefix.size()) == kPrefix.size() + kDigits;
}

[[noreturn]] void refuse_schedule(std::string_view text) {
  throw Error(ErrorKind::kConfig,
              "--checkpoint-every: expected epochs, steps or a time, such as epoch, 500steps or "
              "10min, received \"" +
                  std::string(text) + "\".");
}

layers::Config to_config(const CallbackState& state) {
  layers::Config::Object object{{"best_epoch", state.best_epoch},
                                {"wait", state.wait},
                                {"plateau_wait", state.plateau_wait},
                                {"cooldown", state.cooldown},
                                {"stopped", state.stopped}};
  if (state.best) object.emplace_back("best", *state.best);
  if (state.plateau_best) object.emplace_back("plateau_best", *state.plateau_best);
  return object;
}

CallbackState parse_callback_state(const layers::Config& config) {
  CallbackState state;
  state.best_epoch = config.at("best_epoch").as_int();
  state.wait = config.at("wait").as_int();
  state.plateau_wait = config.at("plateau_wait").as_int();
  state.cooldown = config.at("cooldown").as_int();
  state.stopped = config.at("stopped").as_bool();
  if (const layers::Config* best = config.find("best")) state.best = best->as_double();
  if (const layers::Config* best = config.find("plateau_best")) {
    state.plateau_best = best->as_double();
  }
  return state;
}

}  // namespace

layers::Config to_config(const CheckpointHead& head) {
  return layers::Config::Object{{"steps", head.position.steps},
                                {"epoch", head.position.epoch},
                                {"batches", head.position.batches},
                                {"batch", head.batch},
                                {"rows", head.rows},
                                {"seed", std::to_string(head.seed)},
                                {"shuffle", std::string(data::to_string(head.shuffle))},
                                {"precision", head.precision},
                                {"batch_norm", head.batch_norm},
                                {"program", head.program},
                                {"kernel_set", head.kernel_set},
                                {"block_set", head.block_set},
                                {"parts", head.parts},
                                {"lanes", head.lanes},
                                {"callbacks", to_config(head.callbacks)}};
}

CheckpointHead parse_checkpoint_head(const layers::Config& config) {
  CheckpointHead head;
  head.position.steps = config.at("steps").as_int();
  head.position.epoch = config.at("epoch").as_int();
  head.position.batches = config.at("batches").as_int();
  head.batch = config.at("batch").as_int();
  head.rows = config.at("rows").as_int();
  const std::string& seed = config.at("seed").as_string();
  std::from_chars(seed.data(), seed.data() + seed.size(), head.seed);
  // Files of before there were blocks say yes or no.
  const layers::Config& shuffle = config.at("shuffle");
  head.shuffle = shuffle.is_bool()
                     ? (shuffle.as_bool() ? data::Shuffle::kFull : data::Shuffle::kNone)
                     : data::parse_shuffle(shuffle.as_string());
  if (const layers::Config* precision = config.find("precision")) {
    head.precision = precision->as_string();
  }
  if (const layers::Config* batch_norm = config.find("batch_norm")) {
    head.batch_norm = batch_norm->as_string();
  }
  head.program = config.at("program").as_string();
  head.kernel_set = config.at("kernel_set").as_string();
  head.block_set = static_cast<int>(config.at("block_set").as_int());
  // Files of before there was a choice call parts threads.
  const layers::Config* parts = config.find("parts");
  const int64_t count = (parts != nullptr ? *parts : config.at("threads")).as_int();
  constexpr int64_t kMostParts = 1024;  // as --parts has it
  if (count < 1 || count > kMostParts) {
    throw Error(ErrorKind::kModel,
                fmt::format("parts: expected 1 to {}, received {}.", kMostParts, count));
  }
  head.parts = static_cast<int>(count);
  if (const layers::Config* lanes = config.find("lanes")) head.lanes = lanes->as_int();
  if (head.lanes < 1 || head.lanes > graph::kMostLanes) {
    throw Error(ErrorKind::kModel, fmt::format("lanes: expected 1 to {}, received {}.",
                                               graph::kMostLanes, head.lanes));
  }
  // Files of before there were any have none.
  if (const layers::Config* callbacks = config.find("callbacks")) {
    head.callbacks = parse_callback_state(*callbacks);
  }
  return head;
}

CheckpointFolder::CheckpointFolder(std::string path, int keep)
    : path_(std::move(path)), keep_(keep) {
  std::error_code failed;
  fs::create_directories(path_, failed);
  if (failed) throw_io(path_, "create the folder", failed.value());
}

std::vector<std::string> CheckpointFolder::files() const {
  std::vector<std::string> names;
  std::error_code failed;
  // A range-for would throw where the listing breaks off halfway.
  fs::directory_iterator entries(path_, failed);
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed)) {
    std::string name = entries->path().filename().string();
    if (is_checkpoint(name)) names.push_back(std::move(name));
  }
  if (failed) throw_io(path_, "list the folder", failed.value());
  std::sort(names.begin(), names.end());
  return names;
}

void CheckpointFolder::write(const CheckpointHead& head, std::string_view plan,
                             TensorSource& state) {
  const std::string name = file_name(head.position.steps);
  formats::save_checkpoint(path_ + "/" + name, to_config(head), plan, state);
  std::vector<std::string> names = files();
  for (size_t i = 0; i + static_cast<size_t>(keep_) < names.size(); ++i) {
    std::error_code ignored;
    if (names[i] != name) fs::remove(path_ + "/" + names[i], ignored);
  }
}

std::optional<FoundCheckpoint> CheckpointFolder::newest(std::vector<std::string>* damaged) const {
  const std::vector<std::string> names = files();
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const std::string path = path_ + "/" + *name;
    try {
      formats::CheckpointFile file = formats::load_checkpoint(path);
      return FoundCheckpoint{path, parse_checkpoint_head(file.description),
                             std::move(file.tensors)};
    } catch (const Error& error) {
      damaged->emplace_back(error.what());
    }
  }
  return std::nullopt;
}

CheckpointSchedule parse_schedule(std::string_view text) {
  double count = 1;
  size_t unit = text.find_first_not_of("0123456789.");
  if (unit == std::string_view::npos) refuse_schedule(text);
  if (unit > 0) {
    const auto read = std::from_chars(text.data(), text.data() + unit, count);
    if (read.ec != std::errc() || read.ptr != text.data() + unit || !(count > 0) || count > 1e12) {
      refuse_schedule(text);
    }
  }
  while (unit < text.size() && text[unit] == ' ') ++unit;
  const std::string_view name = text.substr(unit);
  CheckpointSchedule schedule{.epochs = 0, .steps = 0, .seconds = 0};
  if (name == "epoch" || name == "epochs") {
    schedule.epochs = static_cast<int64_t>(count);
  } else if (name == "step" || name == "steps") {
    schedule.steps = static_cast<int64_t>(count);
  } else if (name == "s" || name == "seconds") {
    schedule.seconds = count;
  } else if (name == "min" || name == "minutes") {
    schedule.seconds = 60 * count;
  } else if (name == "h" || name == "hours") {
    schedule.seconds = 3600 * count;
  }
  if (schedule.epochs == 0 && schedule.steps == 0 && schedule.seconds == 0) refuse_schedule(text);
  return schedule;
}

}  // namespace plimsoll::train
