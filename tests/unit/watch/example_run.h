#pragma once

// A run with something in every field, for the tests of its text, JSON and page.

#include "watch/run.h"

namespace plimsoll::watch::test {

inline Run example_run() {
  Run run;
  run.command = {"python", "train <1>.py", "--name", "a'b"};
  run.guard = "the kernel holds the limit in a control group (v1) /sys/fs/cgroup/memory/x";
  run.guard_kind = "cgroup_v1";
  run.limit = int64_t{2} << 30;
  run.seconds = 12.3456;
  run.exit_code = 137;
  run.signal = 9;
  run.limit_passed = true;
  run.verdict.kind = VerdictKind::kKilledByLimit;
  run.verdict.resource = "host_memory";
  run.verdict.sentence =
      "Killed by the kernel's OOM killer: the memory limit of 2 GiB was reached.";
  run.verdict.confidence = 0.98;
  run.verdict.evidence = {"oom_kill went up by 1", "<script>alert(1)</script>"};
  run.verdict.advice = {"Give it more (--memory)."};
  run.peak.held_bytes = 2'147'000'001;
  run.peak.seconds = 11.9;
  run.peak.printed = "Epoch 1/5";
  run.peak.group_bytes = 2'147'483'648;
  run.peak.process_bytes = 2'146'000'896;
  run.peak.process_name = "python";
  for (int i = 0; i < 120; ++i) {
    Sample sample;
    sample.seconds = i * 0.1;
    sample.held = sample.held_low = int64_t{17'900'000} * i;
    sample.resident = sample.held + 1000;
    sample.group_usage = sample.held + 5'000'000;
    sample.group_cache = 5'000'000;
    sample.processes = 1;
    sample.cpu_seconds = 0.18 * i;
    sample.steps = i / 10;
    run.curve.add(sample);
  }
  run.growth = find_growth(run.curve.samples());
  run.bound = find_bound(run.curve.samples(), 2);
  run.cpus = 2;
  run.events = {{0, "started", run.guard}, {10.7, "high_mark", "1.81 GiB of 2 GiB are held"}};
  Capture capture;
  capture.seconds = 10.7;
  capture.why = "high_mark";
  capture.held = 1'940'000'000;
  capture.process_count = 1;
  capture.processes = {{4711, "python", 1'930'000'000, 1'800'000'000, 0}};
  capture.kinds.anonymous = 1'800'000'000;
  capture.mappings = {{1'700'000'000, 1'800'000'000, "anonymous"}};
  capture.last_lines = {"Epoch 1/5"};
  run.captures = {capture};
  run.last_lines = {"Epoch 1/5", "a < b & c"};
  run.output_bytes = 20;
  run.own = {0.05, 6'000'000, 130};
  return run;
}

}  // namespace plimsoll::watch::test
