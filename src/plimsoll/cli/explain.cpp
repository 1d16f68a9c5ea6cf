// plimsoll explain: what a failure log of any framework says, and what to do about it.

#include "explain/explainer.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/places.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/typed_command.h"
#include "formats/model_file.h"
#include "watch/tell/explanation_page.h"

namespace plimsoll::cli {
namespace {

constexpr size_t kBlockBytes = 1 << 18;

struct ExplainCommand {
  std::vector<std::string> logs;
  std::string model;
  std::string html;
  bool json = false;
};

explain::ModelShapes model_shapes(const std::string& path) {
  explain::ModelShapes shapes;
  if (path.empty()) return shapes;
  shapes.spelled = shell_word(path);
  const formats::LoadedModel loaded = formats::load_model(path);
  for (const layers::LayerCall& call : loaded.model.calls()) {
    explain::ModelLayer layer;
    layer.name = loaded.model.layer(call.layer).name();
    const Shape& shape = call.output_types.front().shape;
    const std::vector<int64_t> extents = shape.at(1);
    layer.output.assign(extents.begin() + (shape.has_batch() ? 1 : 0), extents.end());
    for (const layers::Weight& weight : loaded.model.weights(call.layer)) {
      layer.weights.push_back(weight.shape);
    }
    shapes.layers.push_back(std::move(layer));
  }
  return shapes;
}

// Logs that were rotated away are compressed; their bytes say nothing to a reader of text.
void refuse_compressed(std::string_view head, const std::string& path) {
  struct Kind {
    std::string_view magic, name, reader;
  };
  static constexpr Kind kKinds[] = {{"\x1f\x8b", "gzip", "zcat"},
                                    {"BZh", "bzip2", "bzcat"},
                                    {"\xfd"
                                     "7zXZ",
                                     "xz", "xzcat"},
                                    {"\x28\xb5\x2f\xfd", "zstd", "zstdcat"}};
  for (const Kind& kind : kKinds) {
    if (!head.starts_with(kind.magic)) continue;
    const std::string name = path == "-" ? "standard input" : path;
    throw Error(ErrorKind::kData,
                name + ": expected a log as text, received " + std::string(kind.name) +
                    " data. Unpack it on the way: " + std::string(kind.reader) + " " +
                    (path == "-" ? "FILE" : path) + " | plimsoll explain -");
  }
}

// Bytes that no text has: not those that move a terminal's cursor.
bool is_control(unsigned char byte) {
  const bool blank = (byte >= '\b' && byte <= '\r') || byte == 0x1b;
  return (byte < ' ' && !blank) || byte == 0x7f;
}

// How much of what was read is control characters, which texts of no encoding have. Bytes of value
// zero stand in files with holes and say nothing.
class TextGauge {
 public:
  void add(std::string_view bytes) {
    if (count_ == 0 && zeros_ == 0)
      wide_ = bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff");
    int64_t zeros = 0;
    int64_t controls = 0;
    // In runs of a fixed length, which compilers turn into vectors.
    constexpr size_t kRun = 64;
    size_t at = 0;
    for (; at + kRun <= bytes.size(); at += kRun) {
      uint8_t run_zeros = 0;
      uint8_t run_controls = 0;
      for (size_t i = 0; i < kRun; ++i) {
        const auto byte = static_cast<unsigned char>(bytes[at + i]);
        run_zeros += byte == 0 ? 1 : 0;
        run_controls += is_control(byte) ? 1 : 0;
      }
      zeros += run_zeros;
      controls += run_controls;
    }
    for (; at < bytes.size(); ++at) {
      const auto byte = static_cast<unsigned char>(bytes[at]);
      zeros += byte == 0 ? 1 : 0;
      controls += is_control(byte) ? 1 : 0;
    }
    controls -= zeros;
    zeros_ += zeros;
    controls_ += controls;
    count_ += static_cast<int64_t>(bytes.size()) - zeros;
  }
  bool is_empty() const { return count_ + zeros_ == 0; }
  bool is_text() const { return wide_ || (count_ > 0 && controls_ <= count_ / 20); }

 private:
  int64_t count_ = 0;
  int64_t zeros_ = 0;
  int64_t controls_ = 0;
  bool wide_ = false;  // UTF-16
};

// Where nothing was found because there is nothing to be read, "no failure" would be a guess.
void refuse_no_text(const TextGauge& gauge, const std::string& name) {
  if (gauge.is_empty()) {
    throw Error(ErrorKind::kData, name +
                                      ": expected a log as text, received an empty one. Was the "
                                      "error output kept too? python train.py > train.log 2>&1");
  }
  if (!gauge.is_text()) {
    throw Error(ErrorKind::kData, name +
                                      ": expected a log as text, received bytes that are not text. "
                                      "Name the file that the program's output went to.");
  }
}

void feed_file(const std::string& path, explain::Explainer& explainer, TextGauge& gauge) {
  const bool standard_input = path == "-";
  const File file = standard_input ? File() : File::open_read(path);
  std::vector<std::byte> block(kBlockBytes);
  bool first = true;
  for (int64_t offset = 0;;) {
    size_t count = 0;
    if (standard_input) {
      const ssize_t got = read(STDIN_FILENO, block.data(), block.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_io("standard input", "read", errno);
      count = static_cast<size_t>(got);
    } else {
      count = file.read_some_at(offset, block);
      offset += static_cast<int64_t>(count);
    }
    if (count == 0) return;
    const std::string_view text(reinterpret_cast<const char*>(block.data()), count);
    if (first) refuse_compressed(text, path);
    first = false;
    gauge.add(text);
    explainer.feed(text);
  }
}

int run(const ExplainCommand& command) {
  if (!command.html.empty() && command.logs.size() > 1) {
    throw Error(ErrorKind::kConfig, fmt::format("--html: expected one log for one page, received "
                                                "{}. Run plimsoll explain once for each.",
                                                command.logs.size()));
  }
  check_text_name("--html", command.html);
  if (!command.html.empty()) check_place(command.html);
  int code = kDone;
  for (const std::string& log : command.logs) {
    explain::Explainer explainer(model_shapes(command.model));
    TextGauge gauge;
    feed_file(log, explainer, gauge);
    const explain::Explanation explanation = explainer.finish();
    const std::string name = log == "-" ? "standard input" : log;
    const bool silent =
        explanation.verdict == explain::Verdict::kNoFailure && explanation.family.empty();
    if (silent) refuse_no_text(gauge, name);
    const std::string text = command.json ? to_json(explanation, name) : to_text(explanation, name);
    std::fputs(text.c_str(), stdout);
    if (!command.html.empty()) {
      write_text_file(command.html, watch::to_html(explanation, name));
    }
    if (code == kDone) code = exit_code(explanation);
  }
  return code;
}

}  // namespace

Command add_explain(CLI::App& app) {
  auto options = std::make_shared<ExplainCommand>();
  CLI::App* command = app.add_subcommand("explain", "Say why a training run ran out of memory");
  command->add_option("LOG", options->logs, "Log files; - for standard input")->required();
  command->add_option("--model", options->model, "Model file, to name the layer");
  command->add_option("--html", options->html, "Write a page there");
  command->add_flag("--json", options->json, "One JSON object per log");
  command->footer(
      "Exit code: 0 nothing failed, 10 device memory, 11 host memory, 12 shared memory,\n"
      "13 descriptors, 14 disk, 15 message size, 16 not memory, 17 not said,\n"
      "18 warnings only.\n"
      "For example: python train.py 2>&1 | tee train.log; plimsoll explain train.log");
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
