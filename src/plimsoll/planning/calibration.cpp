#include "planning/calibration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <string_view>

#include "backend/kernel/backends.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/places.h"

namespace plimsoll::planning {
namespace {

using backend::KernelTimes;

constexpr std::string_view kFirstLine = "plimsoll-times 1";
constexpr int64_t kMostBytes = int64_t{2} << 20;
constexpr size_t kMostDisks = 16;
// Times and factors outside of these are no measurements.
constexpr double kLeastSeconds = 1e-10;
constexpr double kMostSeconds = 1e5;
constexpr double kMostFactor = 1e6;
constexpr double kMostSpeed = 1e15;

std::string print_number(double number) {
  std::array<char, 32> text{};  // as it is: later plans go by the same number
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

// Up to the next blank, which goes too.
std::string_view take_word(std::string_view& line) {
  const size_t end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line = end == line.npos ? std::string_view() : line.substr(end + 1);
  return word;
}

bool read_number(std::string_view word, double least, double most, double& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && number >= least &&
         number <= most;
}

bool read_key(std::string_view word, uint64_t& key) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), key, 16);
  return error == std::errc() && end == word.data() + word.size() && word.size() == 16;
}

bool is_date(std::string_view text) {
  if (text.size() != 10) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 4 || i == 7;
    if (dash ? text[i] != '-' : text[i] < '0' || text[i] > '9') return false;
  }
  return true;
}

// One line after the head; false: it says nothing that is known.
bool read_line(std::string_view line, KernelTimes& times) {
  const std::string_view kind = take_word(line);
  if (kind == "date") {
    times.date = line;
    return is_date(line);
  }
  if (kind == "rates") {
    times.rated = line;
    return is_date(line);
  }
  if (kind == "stream") return read_number(line, 1, kMostSpeed, times.streamed);
  if (kind == "copy") return read_number(line, 1, kMostSpeed, times.copied);
  if (kind == "disk") {
    backend::DiskSpeed disk;
    if (!read_number(take_word(line), 1, kMostSpeed, disk.read) ||
        !read_number(take_word(line), 1, kMostSpeed, disk.write)) {
      return false;
    }
    disk.folder = line;
    if (times.disks.size() < kMostDisks) times.disks.push_back(std::move(disk));
    return true;
  }
  if (kind != "call" && kind != "factor" && kind != "rate") return false;
  const bool call = kind == "call";
  uint64_t key = 0;
  double number = 0;
  if (!read_key(take_word(line), key) ||
      !read_number(line, kLeastSeconds, call ? kMostSeconds : kMostFactor, number)) {
    return false;
  }
  (call ? times.seconds : kind == "rate" ? times.rates : times.factors).set(key, number);
  return true;
}

// Rates are factors on the backends' tables: they are of one version of those, of rate_keys() and
// of the networks that they are measured on (planning/probes.h).
constexpr const char* kTable = " table 5 ";

void warn(const std::string& text) { log(LogLevel::kWarning, "measured times: " + text); }

}  // namespace

TimesOptions named_times(const std::string& name, bool tune) {
  if (name == "none") return {"", tune};
  return {name.empty() ? user_cache_folder() : name, tune};
}

std::string times_fingerprint(const std::string& kernel_set, int parts, int threads) {
  const std::string on = threads < parts ? fmt::format(" on {} threads", threads) : "";
  return kernel_set.substr(0, kernel_set.find(';')) + on + kTable + read_processor_name();
}

std::string times_fingerprint_of(const std::string& backend, int parts, int threads) {
  const std::string name = backend.empty() ? std::string(backend::default_backend()) : backend;
  backend::KernelSetOptions options;
  options.parts = parts;
  options.threads = threads;
  const std::unique_ptr<backend::Backend> made = backend::make_backend(name, options);
  const graph::KernelCatalog& catalog = made->catalog();
  return times_fingerprint(catalog.kernel_set(), catalog.part_count(), catalog.thread_count());
}

std::string times_path(const std::string& folder, const std::string& fingerprint) {
  return folder + "/times-" + to_hex(hash_text(fingerprint)) + ".txt";
}

std::string print_times(const KernelTimes& times, const std::string& fingerprint) {
  std::string text = std::string(kFirstLine) + "\nmachine " + fingerprint + "\n";
  text += "date " + times.date + "\n";
  if (!times.rated.empty()) text += "rates " + times.rated + "\n";
  if (times.streamed > 0) text += "stream " + print_number(times.streamed) + "\n";
  if (times.copied > 0) text += "copy " + print_number(times.copied) + "\n";
  for (const backend::DiskSpeed& disk : times.disks) {
    if (disk.folder.find('\n') != disk.folder.npos) continue;
    text += "disk " + print_number(disk.read) + " " + print_number(disk.write) + " " + disk.folder +
            "\n";
  }
  for (const auto& [key, seconds] : times.seconds.entries()) {
    text += "call " + to_hex(key) + " " + print_number(seconds) + "\n";
  }
  for (const auto& [key, factor] : times.factors.entries()) {
    text += "factor " + to_hex(key) + " " + print_number(factor) + "\n";
  }
  for (const auto& [key, rate] : times.rates.entries()) {
    text += "rate " + to_hex(key) + " " + print_number(rate) + "\n";
  }
  return text + "end\n";
}

std::optional<KernelTimes> parse_times(const std::string& text, const std::string& fingerprint,
                                       std::string& reason) {
  KernelTimes times;
  std::string_view rest = text;
  for (int number = 1;; ++number) {
    const size_t end = rest.find('\n');
    if (end == rest.npos) {
      reason = "it ends before its last line";
      return std::nullopt;
    }
    const std::string_view line = rest.substr(0, end);
    rest = rest.substr(end + 1);
    if (line == "end" && number > 3) break;
    bool good = false;
    if (number == 1) {
      good = line == kFirstLine;
    } else if (number == 2) {
      good = line.starts_with("machine ");
      if (good && line.substr(8) != fingerprint) {
        reason = "it is of another machine or version";
        return std::nullopt;
      }
    } else {
      good = (number == 3) == line.starts_with("date ") && read_line(line, times);
    }
    if (good) continue;
    reason = fmt::format("line {} is not one of such a file", number);
    return std::nullopt;
  }
  if (rest.empty()) return times;
  reason = "there is more after its last line";
  return std::nullopt;
}

bool has_times(const std::string& folder, const std::string& fingerprint) {
  std::error_code error;
  return !folder.empty() && std::filesystem::exists(times_path(folder, fingerprint), error);
}

std::shared_ptr<const KernelTimes> load_times(const std::string& folder,
                                              const std::string& fingerprint) {
  if (!has_times(folder, fingerprint)) return nullptr;
  const std::string path = times_path(folder, fingerprint);
  std::string reason;
  try {
    std::optional<KernelTimes> times =
        parse_times(read_text_file(path, kMostBytes), fingerprint, reason);
    if (times) return std::make_shared<const KernelTimes>(*std::move(times));
  } catch (const Error& failure) {
    reason = failure.message();
  }
  warn(path + " is not used, plans go by the model's times: " + reason +
       ". Remove it, or measure anew with --tune.");
  return nullptr;
}

void save_times(const std::string& folder, const std::string& fingerprint,
                const KernelTimes& times) {
  if (folder.empty()) {
    warn("they are not kept: expected $XDG_CACHE_HOME or $HOME, or a folder by --times.");
    return;
  }
  try {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    write_text_file(times_path(folder, fingerprint), print_times(times, fingerprint));
  } catch (const Error& failure) {
    if (failure.kind() != ErrorKind::kIo) throw;
    warn("they are not kept: " + std::string(failure.message()));
  }
}

Bytes held_bytes(const KernelTimes& times) {
  constexpr Bytes kPerNumber{128};  // a line of text, and a table that doubles
  return kPerNumber *
         static_cast<int64_t>(times.seconds.entries().size() + times.factors.entries().size() +
                              times.rates.entries().size());
}

std::string date_of_today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

}  // namespace plimsoll::planning
