// Killed from outside: the kernel's OOM reports, shells and exit codes, Slurm, Kubernetes, Ray,
// Colab.

#include <algorithm>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/detect/forms.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"
#include "explain/read/shell_line.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

Finding host_finding(Family family, size_t at, std::string_view note = "") {
  Finding finding;
  finding.family = family;
  finding.resource = Resource::kHostMemory;
  finding.at = at;
  finding.note = note;
  return finding;
}

std::optional<int64_t> kilobytes_after(const Document& document, std::string_view label,
                                       size_t from, size_t to) {
  const size_t at = document.find(label, from, to);
  if (at == npos) return std::nullopt;
  Cursor cursor(document, document.match(label, at));
  const std::optional<Size> size = cursor.size();
  return size ? std::optional<int64_t>(size->bytes) : std::nullopt;
}

// From "invoked oom-killer" to "Killed process": one report of the kernel.
struct Report {
  size_t begin = 0;
  size_t kill = 0;  // the line that names the victim
  size_t end = 0;
};

std::optional<Report> find_report(const Document& document) {
  size_t kill = npos;
  for (std::string_view phrase : {"killed process ", "kill process ", "reaped process "}) {
    const size_t at = document.find(phrase);
    if (at == npos) continue;
    Cursor cursor(document, document.match(phrase, at));
    if (!cursor.integer()) continue;
    kill = at;
    break;
  }
  if (kill == npos) kill = document.find("invoked oom-killer");
  if (kill == npos) kill = document.find("oom-kill:constraint");
  if (kill == npos) return std::nullopt;
  // The killed one's line ends its own report; where that begins the log may not show.
  const size_t invoked = document.find_back("invoked oom-killer", kill + 1, kill + 1);
  Report report{invoked == npos ? 0 : document.record_start(invoked), kill,
                document.record_end(kill)};
  if (document.match("invoked oom-killer", kill) != npos || invoked == npos) {
    report.end = document.text().size();  // cut before the victim, or only searched lines are left
  }
  return report;
}

bool is_of_group(const Document& document, const Report& report) {
  static constexpr std::string_view kPhrases[] = {
      "memory cgroup out of memory", "oom_memcg=", "mem_cgroup_oom", "constraint_memcg"};
  return std::any_of(std::begin(kPhrases), std::end(kPhrases), [&](std::string_view phrase) {
    return document.find(phrase, report.begin, report.end) != npos;
  });
}

// "memory: usage 131072kB, limit 131072kB", "16777116 pages RAM".
void read_report_figures(const Document& document, const Report& report, Finding& finding) {
  Amounts& amounts = finding.amounts;
  const size_t usage = document.find("memory: usage ", report.begin, report.end);
  if (usage != npos) {
    const size_t end = document.record_end(usage);
    amounts.held = kilobytes_after(document, "usage ", usage, end);
    amounts.limit = kilobytes_after(document, "limit ", usage, end);
  }
  constexpr std::string_view kPages = " pages ram";
  if (const size_t pages = document.find(kPages, report.begin, report.end); pages != npos) {
    size_t begin = pages;
    while (begin > 0 && is_digit(document.text()[begin - 1])) --begin;
    Cursor cursor(document, begin);
    constexpr int64_t kMost = int64_t{1} << 38;
    const std::optional<int64_t> count = cursor.integer();
    if (count && *count < kMost) amounts.capacity = *count * 4096;
  }
}

// The program that was killed; the one that "invoked oom-killer" only came at the wrong moment.
void detect_kernel_oom(const Document& document, Facts& facts) {
  const std::optional<Report> report = find_report(document);
  if (!report) return;
  Finding finding = host_finding(Family::kOomKiller, report->kill,
                                 is_of_group(document, *report) ? "cgroup" : "global");
  for (std::string_view policy : {"constraint_memory_policy", "constraint_cpuset"}) {
    if (document.find(policy, report->begin, report->end) != npos) finding.note = "nodes";
  }
  const size_t end = document.record_end(report->kill);
  if (const size_t open = document.find("(", report->kill, end); open != npos) {
    Cursor cursor(document, open + 1);
    const std::string name = cursor.until(")", 64);
    if (name.find('=') == npos) finding.victim = name;
  }
  if (const size_t task = document.find("task=", report->kill, end);
      task != npos && finding.victim.empty()) {
    Cursor cursor(document, document.match("task=", task));
    finding.victim = cursor.until(", ", 64);
  }
  const auto resident = kilobytes_after(document, "anon-rss:", report->kill, end);
  if (resident && *resident > 0) finding.amounts.in_use = resident;
  read_report_figures(document, *report, finding);
  add_finding(facts, std::move(finding));
}

// "oom_kill 3" of a control group's memory.events, with its memory.max beside it.
void detect_group_events(const Document& document, Facts& facts) {
  constexpr std::string_view kKills = "oom_kill ";
  for (size_t i = 0; i < document.line_count(); ++i) {
    const size_t at = document.start(i);
    if (document.match(kKills, at) == npos) continue;
    Cursor cursor(document, document.match(kKills, at));
    const std::optional<int64_t> kills = cursor.integer();
    if (!kills || *kills == 0 || document.find_back("memory.events", at, 400) == npos) continue;
    Finding finding = host_finding(Family::kOomKiller, at, "cgroup");
    if (const size_t limit = document.find_back("memory.max", at, 1000); limit != npos) {
      Cursor value(document, std::min(document.record_end(limit) + 1, document.text().size()));
      finding.amounts.limit = value.integer();
    }
    add_finding(facts, std::move(finding));
  }
}

bool is_shell_kill(std::string_view line) {
  if (is_shell_word(line, "Killed") || line.ends_with("Killed: 9")) return true;
  if (equals_ignoring_case(without_tail(line), "killed: 9")) return true;
  const std::span<const std::string_view> words = translated_kills();
  return std::any_of(words.begin(), words.end(),
                     [line](std::string_view word) { return is_translated_word(line, word); });
}

bool is_job_kill(std::string_view line) {
  if (is_job_line(line, "killed")) return true;
  for (std::string_view word : translated_kills()) {
    if (is_job_line(line, word, true)) return true;
  }
  return false;
}

// The number after "exit code", "exitcode  : ", "\"ExitCode\": ", "non-zero status of ", …
constexpr std::string_view kExitWords[] = {
    "exit code",   "exitcode",    "exit_code",  "exit status",     "exited with", "with code",
    "status code", "return code", "returncode", "non-zero status", "error code"};

std::optional<int64_t> exit_number(const Document& document, size_t at) {
  const std::string& text = document.text();
  size_t end = at;
  bool negative = false;
  while (end < text.size() && end - at < 16 && !is_digit(text[end])) {
    const char c = text[end];
    negative = c == '-';
    const bool filler = c == ' ' || c == ':' || c == '=' || c == '"' || c == '\'' || c == '(' ||
                        c == '-' || c == 'o' || c == 'f' || c == kSoftBreak;
    if (!filler) return std::nullopt;
    ++end;
  }
  const std::optional<int64_t> value = read_integer(text, end);
  const bool fraction = end + 1 < text.size() && text[end] == '.' && is_digit(text[end + 1]);
  if (!value || fraction) return std::nullopt;
  return negative ? -*value : *value;
}

struct Phrase {
  std::string_view text;
  std::string_view note;
};

constexpr Phrase kKillPhrases[] = {
    {"is killed by signal: killed", "worker"},
    {"exit code 137", "137"},
    {"exit code: 137", "137"},
    {"exitcode: 137", "137"},
    {"exit status 137", "137"},
    {"status code 137", "137"},
    {"with code 137", "137"},
    {"exited with 137", "137"},
    {"return code 137", "137"},
    {"returncode 137", "137"},
    {"exited with status 137", "137"},
    {"died with <signals.sigkill", "sigkill"},
    {"interrupted by signal 9", "sigkill"},
    {"terminated by signal 9", "sigkill"},
    {"terminated with signal 9", "sigkill"},
    {"exited on signal 9", "sigkill"},
    {"killed by signal: 9", "sigkill"},
    {"killed signal terminated program", "compiler"},
    {"internal compiler error: killed", "compiler"},
    {"driver has stopped unexpectedly", "notebook"},
    {"terminated by signal sigkill", "sigkill"},
    {"killed by signal 9", "sigkill"},
    {"signal 9 (sigkill)", "sigkill"},
    {"signal: killed", "sigkill"},
    {"was sent sigkill", "sigkill"},
    {"status=9/kill", "sigkill"},
    {"negsignal.sigkill", "sigkill"},
    {"sigkill received", "sigkill"},
    {"killed by signal killed", "sigkill"},
    {"terminated by sigkill", "sigkill"},
    {"signal [sigkill]", "sigkill"},
    {"with signal sigkill", "sigkill"},
    {"sigkill (signal 9)", "sigkill"},
    {"signal: 9, sigkill", "sigkill"},
    {"due to signal 9", "sigkill"},
    {"exit string: killed", "sigkill"},
    {"] error 137", "137"},
    {"exitcode : -9", "sigkill"},
    {"exitcode: -9", "sigkill"},
    {"exit code -9", "sigkill"},
    {"exit status -9", "sigkill"},
    {"return code = -9", "sigkill"},
    {"returned non-zero exit status -9", "sigkill"},
    {"terminated abruptly", "pool"},
    {"was unexpectedly terminated", "pool"},
    {"kernel appears to have died", "notebook"},
    {"appears to have died. it will restart", "notebook"},
    {"kernelrestarter: restarting kernel", "notebook"},
    {") exited unexpectedly", "worker_gone"},
};

constexpr std::string_view kManualWords[] = {
    "137 means", "137 indicates",   "137 usually",         "137 typically",
    "137 is ",   "137 (oom) means", "137 (sigkill) means", "killed means"};

// "Exit code 137 means that …" of a manual.
bool is_explained(const Document& document, size_t at) {
  const size_t end = std::min(document.record_end(at), at + 60);
  return std::any_of(std::begin(kManualWords), std::end(kManualWords),
                     [&](std::string_view word) { return document.find(word, at, end) != npos; });
}

void add_kill(const Document& document, Facts& facts, size_t at, std::string_view note) {
  if (is_explained(document, at)) return;
  Finding finding = host_finding(Family::kKilled, at, note);
  if (document.find("due to time limit") != npos) {
    finding.note = "time_limit";
    finding.resource = Resource::kOther;
  }
  add_finding(facts, std::move(finding));
}

void add_bus_error(const Document& document, Facts& facts, size_t at) {
  for (const Finding& known : facts.findings) {
    if (known.family == Family::kShmBusError) return;  // a worker's, or with its reason
  }
  Finding finding = host_finding(Family::kShmBusError, at, "bus_process");
  finding.resource = Resource::kShm;
  if (document.find("torch") != npos) finding.framework = "pytorch";
  add_finding(facts, std::move(finding));
}

// What Windows prints for its status codes, as they are and as numbers with a sign.
void add_windows_end(Facts& facts, size_t at, int64_t number) {
  constexpr int64_t kWrap = int64_t{1} << 32;
  constexpr int64_t kNoMemory = 0xC0000017;
  if (number != kNoMemory && number != kNoMemory - kWrap) return;
  add_finding(facts, host_finding(Family::kOtherHost, at));
}

void detect_exit_numbers(const Document& document, Facts& facts) {
  for (std::string_view word : kExitWords) {
    for (size_t at = document.find(word); at != npos; at = document.find(word, at + 1)) {
      const std::optional<int64_t> number = exit_number(document, document.match(word, at));
      if (number == 137 || number == 247) add_kill(document, facts, at, "137");
      if (number == -9) add_kill(document, facts, at, "sigkill");
      if (number) add_windows_end(facts, at, *number);
      if (number == 135 || number == -7) add_bus_error(document, facts, at);
    }
  }
}

// The lines around go on in small letters: "nobody was⏎killed⏎in the accident".
bool is_within_sentence(const Document& document, size_t index) {
  if (index == 0 || index + 1 >= document.line_count()) return false;
  const std::string_view before = document.line(index - 1);
  const std::string_view after = document.line(index + 1);
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  return !before.empty() && !after.empty() && is_small(before.back()) && is_small(after.front());
}

void detect_killed(const Document& document, Facts& facts) {
  for (const Phrase& phrase : kKillPhrases) {
    const size_t at = document.find(phrase.text);
    // The reason may stand after it: "The exit codes of the workers are {SIGSEGV(-11)}".
    constexpr size_t kReasonReach = 600;
    const bool crashed = at != npos && phrase.note == "pool" &&
                         document.find("sigkill", at, at + kReasonReach) == npos &&
                         (document.find("{sigsegv(", at, at + kReasonReach) != npos ||
                          document.find("{sigabrt(", at, at + kReasonReach) != npos);
    if (at != npos && !crashed) add_kill(document, facts, at, phrase.note);
  }
  detect_exit_numbers(document, facts);
  for (size_t i = 0; i < document.line_count(); ++i) {
    const std::string_view line = document.line(i);
    const bool job = is_job_kill(line);
    if (!job && !is_shell_kill(line)) continue;
    if (!job && line.starts_with("killed") && is_within_sentence(document, i)) continue;
    const size_t word = find_ignoring_case(line, "killed");
    add_kill(document, facts, document.start(i) + (word == npos ? 0 : word),
             job ? "shell_job" : "shell");
    return;
  }
}

// SIGBUS by the word of a shell, of Python or of a launcher.
void detect_bus_signal(const Document& document, Facts& facts) {
  for (std::string_view phrase :
       {"fatal python error: bus error", "signal 7: sigbus", "signal 7 (sigbus)", "signals.sigbus",
        "caught signal 7", "received signal 7"}) {
    const size_t at = document.find(phrase);
    if (at != npos) return add_bus_error(document, facts, at);
  }
  for (size_t i = 0; i < document.line_count(); ++i) {
    const std::string_view line = document.line(i);
    const std::span<const std::string_view> words = translated_bus_errors();
    const bool translated = std::any_of(words.begin(), words.end(), [line](std::string_view word) {
      return is_translated_word(line, word) || is_job_line(line, word, true);
    });
    if (!translated && !is_shell_word(line, "Bus error") && !is_shell_word(line, "bus error") &&
        !is_job_line(line, "bus error")) {
      continue;
    }
    return add_bus_error(document, facts, document.start(i));
  }
}

// "Limits:⏎  memory: 8Gi" of kubectl describe, near a pod's end.
std::optional<int64_t> limit_of_container(const Document& document, size_t at) {
  constexpr size_t kReach = 1200;
  const size_t limits = document.find("limits:", at > kReach ? at - kReach : 0, at + kReach);
  if (limits == npos) return std::nullopt;
  const size_t memory = document.find("memory:", limits, limits + 120);
  if (memory == npos) return std::nullopt;
  Cursor cursor(document, document.match("memory:", memory));
  cursor.skip_blanks();
  const std::optional<Size> size = cursor.size();
  return size ? std::optional(size->bytes) : std::nullopt;
}

// "OOMKilled": true of `docker inspect`, also from a template of its own; "reason": "OOMKilled" is
// a pod's.
bool is_told_by_docker(std::string_view rest) {
  const size_t word = rest.find_first_not_of("\"': =");
  return word != npos && word > 0 && rest.substr(0, word).find_first_of(":=") != npos &&
         find_ignoring_case(rest.substr(word), "true") == 0;
}

// "Memory": 2147483648 of the container whose state stands at `state`; 0: none.
std::optional<int64_t> limit_of_docker(const Document& document, size_t state) {
  const size_t next = document.find("oomkilled", state + 1);
  for (std::string_view label : {"\"memory\": ", "\"memory\":"}) {
    const size_t at = document.find(label, state, next);
    if (at == npos) continue;
    Cursor cursor(document, document.match(label, at));
    cursor.skip_blanks();
    const std::optional<int64_t> bytes = cursor.integer();
    if (bytes && *bytes > 0) return bytes;
  }
  return std::nullopt;
}

// "Container main was using 15Gi, request is 2Gi", before that "… which exceeds its request of
// 2Gi", for each container: the one that is furthest above what it asked for.
void read_eviction(const Document& document, size_t at, Finding& finding) {
  constexpr std::string_view kUsing = "was using ";
  const size_t end = document.record_end(at);
  const auto size_after = [&](std::string_view phrase, size_t from,
                              size_t to) -> std::optional<int64_t> {
    const size_t found = document.find(phrase, from, to);
    if (found == npos) return std::nullopt;
    Cursor cursor(document, document.match(phrase, found));
    cursor.skip_blanks();
    if (const std::optional<Size> size = cursor.size()) return size->bytes;
    return cursor.integer();  // "0": nothing was asked for
  };
  int64_t most = -1;
  for (size_t place = document.find(kUsing, at, end); place < end;) {
    const size_t next = std::min(document.find(kUsing, place + 1, end), end);
    const std::optional<int64_t> used = size_after(kUsing, place, next);
    std::optional<int64_t> asked = size_after("request is ", place, next);
    if (!asked) asked = size_after("its request of ", place, next);
    if (used && *used - asked.value_or(0) > most) {
      most = *used - asked.value_or(0);
      finding.amounts.in_use = used;
      finding.requested = asked;
    }
    place = next;
  }
}

// What a label is told to be; a template of `docker inspect` (-f '{{.State.OOMKilled}}') prints it
// in the next line, which may look like the rest of a long one.
std::string_view told_after(std::string_view rest) {
  constexpr std::string_view kBreaks = "\n\x01";
  static_assert(kBreaks[1] == kSoftBreak);
  const bool is_template = rest.starts_with("}}");
  size_t at = is_template ? rest.find_first_of(kBreaks) : 0;
  if (at == npos) return {};
  at = rest.find_first_not_of("\"': =\n\x01", at);
  if (at == npos) return {};
  rest = rest.substr(at, rest.find_first_of("\"', \n\x01", at) - at);
  if (rest.starts_with("{{")) return "false";  // the label of a template
  return is_template && rest != "true" ? "false" : rest;
}

// Where the phrase stands first and is not told to be false; npos: nowhere.
size_t find_killed_pod(const Document& document, std::string_view phrase) {
  for (size_t at = document.find(phrase); at != npos; at = document.find(phrase, at + 1)) {
    const std::string_view rest =
        std::string_view(document.text()).substr(at).substr(document.match(phrase, at) - at);
    if (!told_after(rest.substr(0, 400)).starts_with("false")) return at;
  }
  return npos;
}

void detect_cluster(const Document& document, Facts& facts) {
  static constexpr Phrase kSlurm[] = {
      {"oom-kill event", "event"},
      {"oom_kill event", "event"},
      {"task 0: out of memory", "task"},
      {"exceeded step memory limit", "limit"},
      {"exceeded job memory limit", "limit"},
      {"exceeded memory limit", "limit"},
      {"state: out_of_memory", "state"},
      {"job oom", "state"},
  };
  for (const Phrase& phrase : kSlurm) {
    const size_t at = document.find(phrase.text);
    if (at == npos) continue;
    add_finding(facts, host_finding(Family::kSlurmOom, at, phrase.note));
    break;
  }
  static constexpr Phrase kPods[] = {
      {"oomkilled", "oomkilled"},
      {"\"oom killed\"", "oomkilled"},
      {"low on resource: memory", "evicted"},
      {"exceeded memory resource limit", "evicted"},
  };
  for (const Phrase& phrase : kPods) {
    const size_t at = find_killed_pod(document, phrase.text);
    if (at == npos) continue;
    const std::string_view rest =
        std::string_view(document.text()).substr(document.match(phrase.text, at), 400);
    Finding finding = host_finding(Family::kK8s, at, phrase.note);
    finding.amounts.limit = limit_of_container(document, at);
    if (finding.note == "evicted") read_eviction(document, at, finding);
    if (is_told_by_docker(rest)) {
      finding.note = "docker";
      finding.amounts.limit = limit_of_docker(document, at);
    }
    add_finding(facts, std::move(finding));
    break;
  }
}

// Memory on the node (…, name=SimEnv.__init__, pid=4331, memory used=2.22GB) was running was A / B
void detect_ray(const Document& document, Facts& facts) {
  size_t at = document.find("memory on the node (");
  if (at == npos) at = document.find("due to the node running low on memory");
  if (at == npos) return;
  Finding finding = host_finding(Family::kRayOom, at);
  finding.framework = "ray";
  const size_t end = std::min(document.text().size(), document.record_end(at) + 1200);
  if (const size_t was = document.find("running was ", at, end); was != npos) {
    Cursor cursor(document, document.match("running was ", was));
    if (const std::optional<Size> used = cursor.size()) {
      set_size(finding, *used);
      cursor.skip_blanks();
      if (cursor.literal("/")) {
        cursor.skip_blanks();
        if (const std::optional<Size> total = cursor.size()) {
          finding.amounts.capacity = total->bytes;
        }
      }
    }
  }
  if (const size_t name = document.find("name=", at, end); name != npos) {
    Cursor cursor(document, document.match("name=", name));
    finding.op = cursor.until(",) ");
  }
  if (const size_t used = document.find("memory used=", at, end); used != npos) {
    Cursor cursor(document, document.match("memory used=", used));
    if (const std::optional<Size> own = cursor.size()) finding.amounts.in_use = own->bytes;
  }
  add_finding(facts, std::move(finding));
}

// RayOutOfMemoryError: More than 95% of the memory on node abc is used (60.1 / 62.8 GB).
void detect_old_ray(const Document& document, Facts& facts) {
  const size_t at = document.find("% of the memory on node ");
  if (at == npos) return;
  Finding finding = host_finding(Family::kRayOom, at);
  finding.framework = "ray";
  Cursor cursor(document, at);
  if (cursor.seek("is used (", 200)) {
    const std::string used = cursor.until(" /", 12);
    cursor.skip_blanks();
    if (cursor.literal("/")) cursor.skip_blanks();
    const std::string total = cursor.until(")", 24);
    // The unit stands after the second figure only.
    const size_t unit = total.find_first_not_of("0123456789.");
    const std::string whole = used + (unit == npos ? "" : total.substr(unit));
    size_t begin = 0;
    if (const std::optional<double> bytes = read_bytes(whole, begin)) {
      finding.bytes = round_to_bytes(*bytes);
      finding.bytes_text = whole;
    }
    begin = 0;
    if (const std::optional<double> bytes = read_bytes(total, begin)) {
      finding.amounts.capacity = round_to_bytes(*bytes);
    }
  }
  add_finding(facts, std::move(finding));
}

// "WARNING | kernel 3ac2d8f1-… restarted": a notebook's server found its kernel dead. A person who
// restarts one is "Kernel restarted: …".
void detect_restarted_kernels(const Document& document, Facts& facts) {
  constexpr std::string_view kKernel = "kernel ";
  for (size_t at = document.find(kKernel); at != npos; at = document.find(kKernel, at + 1)) {
    Cursor cursor(document, document.match(kKernel, at));
    const std::string id = cursor.until(" \n", 40);
    const bool is_id = id.size() == 36 && id.find_first_not_of("0123456789abcdef-") == npos;
    if (!is_id) continue;
    cursor.skip_blanks();
    if (!cursor.literal("restarted")) continue;
    add_kill(document, facts, at, "notebook");
    return;
  }
}

void detect_notebooks(const Document& document, Facts& facts) {
  detect_restarted_kernels(document, facts);
  static constexpr Phrase kNotebooks[] = {
      {"using all available ram", "colab"},
      {"allocate more memory than is available", "kaggle"},
  };
  for (const Phrase& phrase : kNotebooks) {
    const size_t at = document.find(phrase.text);
    if (at == npos) continue;
    add_finding(facts, host_finding(Family::kColab, at, phrase.note));
  }
}

}  // namespace

void detect_kernel(const Document& document, Facts& facts) {
  detect_kernel_oom(document, facts);
  detect_group_events(document, facts);
  detect_killed(document, facts);
  detect_bus_signal(document, facts);
  detect_cluster(document, facts);
  detect_ray(document, facts);
  detect_old_ray(document, facts);
  detect_notebooks(document, facts);
}

}  // namespace plimsoll::explain
