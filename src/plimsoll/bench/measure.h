#pragma once

// How fast one program of a workload, or of a model's file, runs here.
//
// It is planned and run as any other run is, on random samples of its shapes or on a file's. What
// is measured is the process: whoever wants each workload's memory by itself measures it in a
// process of its own. Nothing is printed here.

#include <cstdint>
#include <string>
#include <string_view>

#include "report/speed.h"
#include "run/listener.h"
#include "run/request.h"

namespace plimsoll::bench {

enum class Program : uint8_t { kTrain, kEvaluate, kPredict };
std::string_view to_string(Program program);  // "train", "evaluate", "predict"
// Throws kConfig naming `option`, with a did-you-mean.
Program parse_program(const std::string& option, const std::string& text);

struct Request {
  std::string name;         // of a workload, or a model's file
  run::ModelRequest model;  // what is taken in place of what it says; the path is the name
  run::Settings settings;   // but for batch and profile
  run::DataPaths data;      // empty: random samples
  Program program = Program::kTrain;
  int64_t batch = 0;     // samples a step; 0: the workload's
  int64_t steps = 0;     // of training, or batches of random data; 0: the workload's
  bool profile = false;  // in the answer, too
  bool calls = false;    // in the profile, what each kernel was asked for
};

// Throws as the run does, and kConfig for a name that no workload has.
report::Speed measure(const Request& request, run::Listener& listener);

}  // namespace plimsoll::bench
