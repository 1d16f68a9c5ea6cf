#include "watch/measure/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "watch/measure/kernel_file.h"

namespace plimsoll::watch {
namespace {

constexpr size_t kMostRecords = 64;
constexpr size_t kMostText = 400;
constexpr size_t kNone = std::string_view::npos;

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, kMostText)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) result += c;
  }
  return result;
}

// The value in "…,key=value,…"; the last value may hold anything but a comma.
std::string_view field(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == kNone) return {};
  const size_t begin = at + key.size();
  return text.substr(begin, text.find(',', begin) - begin);
}

OomRecord parse_constraint(std::string_view text) {
  OomRecord record;
  record.text = printable(text);
  record.pid = leading_number(field(text, ",pid=")).value_or(0);
  record.name = printable(field(text, ",task="));
  record.in_group = text.find("constraint=CONSTRAINT_MEMCG") != kNone;
  record.group = printable(field(text, "oom_memcg="));
  return record;
}

void parse_killed(std::string_view text, size_t at, std::vector<OomRecord>& records) {
  const std::string_view rest = text.substr(at);
  const int64_t pid = leading_number(rest).value_or(0);
  auto known = std::find_if(records.rbegin(), records.rend(),
                            [&](const OomRecord& record) { return record.pid == pid; });
  if (known == records.rend()) {
    OomRecord record;
    record.pid = pid;
    record.in_group = text.find("Memory cgroup") != kNone || text.find("memory cgroup") != kNone;
    const size_t open = rest.find('(');
    const size_t close = rest.find(") ");
    if (open != kNone && close != kNone && close > open) {
      record.name = printable(rest.substr(open + 1, close - open - 1));
    }
    records.push_back(record);
    known = records.rbegin();
  }
  const size_t anonymous = rest.find("anon-rss:");
  if (anonymous != kNone) {
    known->anonymous = bytes_of_kilobytes(leading_number(rest.substr(anonymous + 9)));
  }
  known->text = printable(text);
}

}  // namespace

void read_oom_record(std::string_view text, std::vector<OomRecord>& records) {
  if (records.size() >= kMostRecords) return;
  constexpr std::string_view kConstraint = "oom-kill:constraint=";
  constexpr std::string_view kKilled = "Killed process ";
  if (const size_t at = text.find(kConstraint); at != kNone) {
    records.push_back(parse_constraint(text.substr(at)));
  } else if (const size_t killed = text.find(kKilled); killed != kNone) {
    parse_killed(text, killed + kKilled.size(), records);
  }
}

KernelLog::KernelLog() {
  descriptor_ = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor_ >= 0) ::lseek(descriptor_, 0, SEEK_END);
}

KernelLog::~KernelLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void KernelLog::poll() {
  if (descriptor_ < 0) return;
  std::array<char, 8192> record;
  for (int count = 0; count < 512; ++count) {
    const ssize_t got = ::read(descriptor_, record.data(), record.size());
    if (got < 0 && errno == EPIPE) continue;  // records were overwritten before they were read
    if (got <= 0) return;
    std::string_view text(record.data(), static_cast<size_t>(got));
    // "priority,number,time,flags;text\n KEY=value\n"
    const size_t semicolon = text.find(';');
    if (semicolon == kNone) continue;
    text.remove_prefix(semicolon + 1);
    read_oom_record(text.substr(0, text.find('\n')), records_);
  }
}

}  // namespace plimsoll::watch
