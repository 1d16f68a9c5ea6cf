#include "trace/run_log.h"

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "trace/records.h"

namespace plimsoll::trace {

class RunLog::Impl {
 public:
  explicit Impl(File file, int64_t end) : file_(std::move(file)), end_(end) {}

  void write(std::string_view line) {
    file_.write_at(end_, std::as_bytes(std::span(line)));
    end_ += static_cast<int64_t>(line.size());
  }

 private:
  File file_;
  int64_t end_ = 0;
};

namespace {

bool is_before(std::string_view line, int64_t steps, int64_t epochs) {
  try {
    const Event event = parse_line(line);
    if (const auto* step = std::get_if<StepEvent>(&event)) return step->step <= steps;
    if (const auto* epoch = std::get_if<EpochEvent>(&event)) return epoch->epoch <= epochs;
    return true;
  } catch (const Error&) {
    return false;  // a line that a kill cut short
  }
}

// Where the lines end that the resumed run will not write again.
int64_t find_end(const File& file, int64_t steps, int64_t epochs) {
  constexpr size_t kPieceBytes = 64 << 10;
  constexpr size_t kMaxLineBytes = 1 << 20;
  std::string text;
  int64_t end = 0;
  while (true) {
    const size_t had = text.size();
    text.resize(had + kPieceBytes);
    const auto space = std::as_writable_bytes(std::span(text)).subspan(had);
    const size_t got = file.read_some_at(end + static_cast<int64_t>(had), space);
    text.resize(had + got);
    size_t begin = 0;
    for (size_t stop; (stop = text.find('\n', begin)) != std::string::npos; begin = stop + 1) {
      const std::string_view line = std::string_view(text).substr(begin, stop - begin);
      if (!is_before(line, steps, epochs)) return end + static_cast<int64_t>(begin);
    }
    if (got == 0 || text.size() - begin > kMaxLineBytes) return end + static_cast<int64_t>(begin);
    end += static_cast<int64_t>(begin);
    text.erase(0, begin);
  }
}

}  // namespace

RunLog::RunLog(const std::string& path) : impl_(std::make_unique<Impl>(File::create(path), 0)) {}

RunLog::RunLog(const std::string& path, int64_t steps, int64_t epochs) {
  File file = File::open_or_create(path);
  const int64_t end = find_end(file, steps, epochs);
  file.resize(end);
  impl_ = std::make_unique<Impl>(std::move(file), end);
}

RunLog::~RunLog() = default;

// The same line as to_line makes, put together without the heap: a step allocates nothing.
void RunLog::step(int64_t step, double loss) {
  std::array<char, 96> line;
  char* at = line.data();
  char* const end = line.data() + line.size();
  const auto put = [&](std::string_view text) {
    at += text.copy(at, static_cast<size_t>(end - at));
  };
  put("{\"step\": ");
  at = std::to_chars(at, end, step).ptr;
  put(", \"loss\": ");
  if (std::isfinite(loss)) {
    at = std::to_chars(at, end, loss).ptr;
  } else {
    put("null");
  }
  put("}\n");
  impl_->write({line.data(), static_cast<size_t>(at - line.data())});
}

void RunLog::epoch(int64_t epoch, const std::vector<std::pair<std::string, double>>& metrics,
                   double seconds) {
  impl_->write(to_line(EpochEvent{epoch, metrics, seconds}));
}

}  // namespace plimsoll::trace
