// plimsoll: `explain` and `watch` at once, in a few MiB; any other command by becoming
// plimsoll-engine, which stands at a fixed place relative to this program.

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/program.h"

namespace plimsoll::cli {
namespace {

bool is_light(int argc, char** argv) {
  return argc > 1 && (std::strcmp(argv[1], "explain") == 0 || std::strcmp(argv[1], "watch") == 0);
}

std::string engine_path() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  std::string own(path.data(), length > 0 ? static_cast<size_t>(length) : 0);
  return own.substr(0, own.rfind('/') + 1) + PLIMSOLL_ENGINE;
}

// Returns only when it could not be done.
int become_engine(char** argv) {
  const std::string path = engine_path();
  ::execv(path.c_str(), argv);
  std::fprintf(stderr,
               "plimsoll: expected the engine at %s, received: %s. Install both programs under one "
               "prefix.\n",
               path.c_str(), std::strerror(errno));
  return kFileFailure;
}

}  // namespace
}  // namespace plimsoll::cli

int main(int argc, char** argv) {
  using namespace plimsoll::cli;  // NOLINT(google-build-using-namespace): the commands
  if (!is_light(argc, argv)) return become_engine(argv);
  return run_program(argc, argv, [](CLI::App& app, const TypedCommand& typed) {
    return std::map<std::string, Command>{{"explain", add_explain(app)},
                                          {"watch", add_watch(app, typed)}};
  });
}
