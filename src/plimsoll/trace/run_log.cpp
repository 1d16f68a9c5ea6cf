#include "trace/run_log.h"

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string_view>

#include "base/file.h"
#include "trace/records.h"

namespace plimsoll::trace {

class RunLog::Impl {
 public:
  explicit Impl(const std::string& path) : file_(File::create(path)) {}

  void write(std::string_view line) {
    file_.write_at(end_, std::as_bytes(std::span(line)));
    end_ += static_cast<int64_t>(line.size());
  }

 private:
  File file_;
  int64_t end_ = 0;
};

RunLog::RunLog(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
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

void RunLog::write(const Event& event) { impl_->write(to_line(event)); }

}  // namespace plimsoll::trace
