#include "report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "base/format.h"
#include "report/table.h"

namespace plimsoll::report {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kBarCells = 20;

int terminal_width(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string bar(int64_t step, int64_t step_count) {
  const int64_t full = step_count > 0 ? step * kBarCells / step_count : 0;
  std::string text;
  for (int i = 0; i < kBarCells; ++i) text += i < full ? "█" : "░";
  return text;
}

std::string rate(double per_second) {
  if (per_second >= 10'000) return fmt::format("{:.1f}k samples/s", per_second / 1000);
  return fmt::format("{:.{}f} samples/s", per_second, per_second < 100 ? 1 : 0);
}

size_t width_of(const std::string& text) {
  size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

std::string mebibytes(Bytes bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes.count()) / (1 << 20));
}

}  // namespace

std::string progress_line(const ProgressState& state, int width) {
  std::string line = fmt::format("epoch {}/{}  {}/{}  ", state.epoch, state.epoch_count, state.step,
                                 state.step_count);
  if (state.step < state.step_count) line += bar(state.step, state.step_count) + "  ";
  if (state.seconds > 0) line += rate(static_cast<double>(state.samples) / state.seconds) + "  ";
  if (state.step > 0 && state.step < state.step_count) {
    const double per_step = state.seconds / static_cast<double>(state.step);
    line += "ETA " + format_seconds(per_step * static_cast<double>(state.step_count - state.step)) +
            "  ";
  } else {
    line += format_seconds(state.seconds) + "  ";
  }
  std::string memory = mebibytes(state.memory);
  if (state.limit > Bytes(0)) memory += "/" + mebibytes(state.limit);
  memory += " MiB";
  for (const auto& [name, value] : state.metrics) {
    const std::string text = fmt::format("{} {:.4f}  ", name, without_sign_of_nan(value));
    const size_t total = width_of(line) + width_of(text) + memory.size();
    if (width > 0 && total > static_cast<size_t>(width)) break;
    line += text;
  }
  return line + memory;
}

double without_sign_of_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

Progress::Progress(std::FILE* stream) : stream_(stream), terminal_(isatty(fileno(stream)) == 1) {}

bool Progress::wants_update(double now) const {
  return terminal_ && now - last_drawn_ >= kRedrawSeconds;
}

void Progress::update(const ProgressState& state, double now) {
  last_drawn_ = now;
  std::fprintf(stream_, "\r%s\033[K", progress_line(state, terminal_width(stream_) - 1).c_str());
  std::fflush(stream_);
}

void Progress::finish(const ProgressState& state) {
  if (terminal_) std::fputs("\r\033[K", stream_);
  std::fprintf(stream_, "%s\n", progress_line(state, 0).c_str());
  std::fflush(stream_);
}

}  // namespace plimsoll::report
