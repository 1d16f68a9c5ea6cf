#include "cli/rates.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/process_memory.h"
#include "base/spill_folder.h"
#include "cli/exit_code.h"
#include "cli/program.h"
#include "planning/rates.h"

extern char** environ;

namespace plimsoll::cli {
namespace {

constexpr const char* kWord = "--measure-rates";
// The program, kWord, folder, backend, threads, spill folder, limit, who waits.
constexpr int kWords = 9;
constexpr std::chrono::seconds kMost(20);

bool can_write(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  return !failed && ::access(folder.c_str(), W_OK) == 0;
}

// Where a spill file would be; empty: nowhere.
std::string spill_folder(const run::Settings& settings) {
  if (settings.spill == planning::SpillUse::kNever) return "";
  try {
    return choose_spill_folder(settings.spill_directory);
  } catch (const Error&) {
    return "";  // said where a file is wanted
  }
}

// What the measuring process may take: this one waits meanwhile.
Bytes left_beside_us(const run::Settings& settings) {
  const Bytes limit = settings.memory.value_or(planning::guard_without_limit());
  const Bytes ours = read_process_memory().now();
  return limit > ours ? limit - ours : Bytes();
}

// The exit code; none: it could not be started, or took too long and was ended.
std::optional<int> run_and_wait(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t silence;
  posix_spawn_file_actions_init(&silence);
  posix_spawn_file_actions_addopen(&silence, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&silence, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&silence, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, "/proc/self/exe", &silence, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&silence);
  if (failed != 0) return std::nullopt;
  const auto until = std::chrono::steady_clock::now() + kMost;
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return std::nullopt;
    if (ended == child) break;
    if (std::chrono::steady_clock::now() > until) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (!WIFEXITED(status)) return std::nullopt;
  return WEXITSTATUS(status);
}

int64_t read_number(const char* word) {
  int64_t number = 0;
  std::from_chars(word, word + std::strlen(word), number);
  return number;
}

// Kernels that are measured at all: the others' plans are for tests.
bool has_rates(const std::string& backend) {
  return backend.empty() || backend == "onednn" || backend == "cpu";
}

// Why they could not be measured; empty: they were.
std::string measure(const run::Settings& settings, const std::string& folder) {
  if (!can_write(folder)) return "the folder for measured rates cannot be written";
  const Bytes left = left_beside_us(settings);
  std::optional<int> code = kDoesNotFit;
  if (left >= planning::kRatesRoom) {
    code =
        run_and_wait({"plimsoll", kWord, folder, settings.backend, std::to_string(settings.parts),
                      std::to_string(settings.threads), spill_folder(settings),
                      std::to_string(left.count()), std::to_string(::getpid())});
  }
  if (code == kDone) return "";
  return code == kDoesNotFit ? "the limit has no room to measure rates"
                             : "rates could not be measured";
}

}  // namespace

void ask_for_rates(run::Settings& settings) {
  const planning::TimesOptions times = planning::named_times(settings.times, settings.tune);
  if (!settings.plan.empty() || times.folder.empty() || !has_rates(settings.backend)) return;
  // A run may be planned several times.
  settings.measure_rates = std::make_shared<const std::function<std::string()>>(
      [settings, folder = times.folder,
       told = std::make_shared<std::optional<std::string>>()]() -> std::string {
        if (!*told) *told = measure(settings, folder);
        return **told;
      });
}

bool is_rates_process(int argc, char** argv) {
  return argc == kWords && std::strcmp(argv[1], kWord) == 0;
}

int run_rates_process(int, char** argv) {
  // Whoever waits for it may be killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != read_number(argv[8])) return kFileFailure;
  own_the_process();
  try {
    planning::RatesRequest request;
    request.times = planning::named_times(argv[2], false);
    request.backend = argv[3];
    request.parts = static_cast<int>(read_number(argv[4]));
    request.threads = static_cast<int>(read_number(argv[5]));
    request.spill_folder = argv[6];
    request.limit = Bytes(read_number(argv[7]));
    return planning::measure_rates(request) ? kDone : kDoesNotFit;
  } catch (const std::exception&) {
    return kFileFailure;
  }
}

}  // namespace plimsoll::cli
