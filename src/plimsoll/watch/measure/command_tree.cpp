#include "watch/measure/command_tree.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "base/format.h"

namespace plimsoll::watch {

CommandMark make_command_mark() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  CommandMark mark;
  mark.own = fmt::format("{}-{}", ::getpid(),
                         std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
  const char* outer = std::getenv(kMarkName);
  mark.value = (outer == nullptr ? std::string() : std::string(outer) + ":") + mark.own;
  return mark;
}

CommandTree::CommandTree(int64_t command, int64_t watcher, std::string mark, std::string root)
    : command_(command), watcher_(watcher), mark_(std::move(mark)), reader_(std::move(root)) {}

bool CommandTree::is_ours(const ProcessLink& child) {
  const Identity identity{child.pid, child.started};
  if (members_.contains(identity)) return true;
  if (strangers_.contains(identity)) return false;
  const std::optional<bool> marked = reader_.environment_says(child.pid, kMarkName, mark_);
  if (marked && !*marked) strangers_.insert(identity);
  return marked.value_or(false);
}

std::vector<int64_t> CommandTree::find() {
  const std::vector<ProcessLink> links = reader_.links();
  std::vector<int64_t> roots;
  for (const ProcessLink& link : links) {
    if (link.pid == command_ && command_started_ < 0) command_started_ = link.started;
    const bool is_command = link.pid == command_ && link.started == command_started_;
    if (is_command || (link.parent == watcher_ && is_ours(link))) roots.push_back(link.pid);
  }
  std::vector<int64_t> pids = with_descendants(links, roots);
  std::set<Identity> members;
  std::set<Identity> strangers;
  const std::set<int64_t> found(pids.begin(), pids.end());
  for (const ProcessLink& link : links) {
    const Identity identity{link.pid, link.started};
    if (found.contains(link.pid)) members.insert(identity);
    if (strangers_.contains(identity)) strangers.insert(identity);
  }
  members_ = std::move(members);
  strangers_ = std::move(strangers);
  return pids;
}

}  // namespace plimsoll::watch
