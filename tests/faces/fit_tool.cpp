// Fits a model through the C++ face, as a test says by `key=value`, to be compared with the command
// line: plimsoll_fit_tool MODEL option=value …
//
// Beyond FitOptions' names: kill_at=STEP (the process dies as if by the kernel), lower_at=STEP and
// lower_to=BYTES (the limit changes under the run), stop_at=STEP.

#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "plimsoll/plimsoll.h"

namespace {

using Setter = std::function<void(plimsoll::FitOptions&, const std::string&)>;

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> kAll = {
      {"batch", [](auto& o, auto& v) { o.batch = std::stoll(v); }},
      {"epochs", [](auto& o, auto& v) { o.epochs = std::stoll(v); }},
      {"steps", [](auto& o, auto& v) { o.steps = std::stoll(v); }},
      {"memory", [](auto& o, auto& v) { o.memory = plimsoll::Bytes(std::stoll(v)); }},
      {"seed", [](auto& o, auto& v) { o.seed = std::stoull(v); }},
      {"threads", [](auto& o, auto& v) { o.threads = std::stoi(v); }},
      {"backend", [](auto& o, auto& v) { o.backend = v; }},
      {"times", [](auto& o, auto& v) { o.times = v; }},
      {"shuffle", [](auto& o, auto& v) { o.shuffle = v; }},
      {"precision", [](auto& o, auto& v) { o.precision = v; }},
      {"plan_time", [](auto& o, auto& v) { o.plan_time = std::stod(v); }},
      {"max_slowdown", [](auto& o, auto& v) { o.max_slowdown = std::stod(v); }},
      {"without", [](auto& o, auto& v) { o.without = v; }},
      {"plan", [](auto& o, auto& v) { o.plan = v; }},
      {"spill",
       [](auto& o, auto& v) {
         o.spill = v == "always"  ? plimsoll::Spill::kAlways
                   : v == "never" ? plimsoll::Spill::kNever
                                  : plimsoll::Spill::kIfNeeded;
       }},
      {"spill_dir", [](auto& o, auto& v) { o.spill_dir = v; }},
      {"validation_split", [](auto& o, auto& v) { o.validation_split = std::stod(v); }},
      {"class_weights", [](auto& o, auto& v) { o.class_weights = v; }},
      {"output", [](auto& o, auto& v) { o.output = v; }},
      {"log", [](auto& o, auto& v) { o.log = v; }},
      {"log_steps", [](auto& o, auto& v) { o.log_steps = v == "yes"; }},
      {"csv_log", [](auto& o, auto& v) { o.csv_log = v; }},
      {"tensorboard", [](auto& o, auto& v) { o.tensorboard = v; }},
      {"histograms", [](auto& o, auto& v) { o.histograms = std::stoll(v); }},
      {"monitor", [](auto& o, auto& v) { o.monitor = v; }},
      {"early_stopping", [](auto& o, auto& v) { o.early_stopping = v; }},
      {"reduce_on_plateau", [](auto& o, auto& v) { o.reduce_on_plateau = v; }},
      {"keep_best", [](auto& o, auto& v) { o.keep_best = v; }},
      {"checkpoint", [](auto& o, auto& v) { o.checkpoint = v; }},
      {"checkpoint_every", [](auto& o, auto& v) { o.checkpoint_every = v; }},
      {"resume", [](auto& o, auto& v) { o.resume = v == "yes"; }},
  };
  return kAll;
}

int run(int argc, char** argv) {
  plimsoll::Model model = plimsoll::load_model(argv[1]);
  plimsoll::FitOptions options;
  plimsoll::DataOptions data;
  std::map<std::string, long long> at;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t end = word.find('=');
    const std::string name = word.substr(0, end);
    const std::string value = word.substr(end + 1);
    if (name == "data") {
      data.data.push_back(value);
    } else if (name == "labels") {
      data.labels.push_back(value);
    } else if (name == "kill_at" || name == "lower_at" || name == "lower_to" || name == "stop_at") {
      at[name] = std::stoll(value);
    } else {
      setters().at(name)(options, value);
    }
  }
  options.on_notice = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  options.on_step = [&](int64_t step, double) {
    if (step == at["kill_at"]) std::raise(SIGKILL);
    if (step == at["lower_at"]) model.change_limit(plimsoll::Bytes(at["lower_to"]));
    if (step == at["stop_at"]) model.request_stop();
  };
  const plimsoll::History history = model.fit(plimsoll::Dataset::open(data), options);
  std::printf("%lld steps%s\n", static_cast<long long>(history.steps),
              history.interrupted ? ", interrupted" : "");
  return history.memory.passed_limit ? 8 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
