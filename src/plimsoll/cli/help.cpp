#include "cli/help.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::cli {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kColumn = 28;  // where what an option does begins

size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// `head`, and `text` beside it, or below where the head is long.
std::string entry(const std::string& head, const std::string& text) {
  std::string out = "  " + head;
  size_t at = width_of(out);
  const auto break_line = [&] {
    out += "\n" + std::string(kColumn, ' ');
    at = kColumn;
  };
  if (at + 1 >= kColumn) {
    break_line();
  } else {
    out.append(kColumn - at, ' ');
    at = kColumn;
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const size_t width = width_of(word);
    if (at > kColumn && at + 1 + width > kWidth) break_line();
    if (at > kColumn) {
      out += ' ';
      ++at;
    }
    out += word;
    at += width;
    begin = end + 1;
  }
  return out + "\n";
}

// The groups of the commands that train or run a model.
struct Group {
  const char* title;
  std::vector<std::string_view> options;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"Model and training",
       {"--weights", "--input-shape", "--batch", "--optimizer", "--loss", "--metrics",
        "--precision", "--batch-norm", "--seed", "--epochs", "--steps", "--shuffle",
        "--no-shuffle"}},
      {"Memory, and the search for a plan",
       {"--memory",       "--threads",  "--parts",        "--lanes",     "--ranks",
        "--network",      "--shard",    "--rank-timeout", "--backend",   "--plan-time",
        "--max-slowdown", "--without",  "--plan",         "--tune",      "--times",
        "--spill",        "--no-spill", "--spill-limit",  "--spill-dir", "--frontier",
        "--why"}},
      {"What is written",
       {"--json", "--output", "--html", "--log", "--log-steps", "--csv-log", "--tensorboard",
        "--histograms", "--profile", "--profile-output"}},
      {"Ends of epochs, and going on after a crash",
       {"--monitor", "--early-stopping", "--reduce-on-plateau", "--keep-best", "--checkpoint",
        "--checkpoint-every", "--checkpoint-keep", "--resume"}}};
  return all;
}

}  // namespace

void group_options(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_positional()) continue;
    const std::string name = option->get_name();
    option->group("Data");
    if (name == "--help" || name == "-h") option->group("Options");
    for (const Group& group : groups()) {
      if (std::ranges::find(group.options, name) != group.options.end()) option->group(group.title);
    }
  }
}

std::string value_name(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  // What checks add to it comes after a colon.
  size_t end = type.find(" in [");
  end = end == std::string::npos ? type.find(":{") : type.rfind(':', end);
  const std::string name = type.substr(0, end);
  return name == "INT" || name == "UINT" || name == "FLOAT" ? "N" : name;
}

std::string value_range(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find(" in [");
  const size_t middle = type.find(" - ", begin);
  const size_t end = type.find(']', begin);
  if (begin == std::string::npos || middle == std::string::npos || end == std::string::npos) {
    return "";
  }
  const size_t first = begin + 5;
  return "from " + type.substr(first, middle - first) + " to " +
         type.substr(middle + 3, end - middle - 3);
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  if (is_positional) return entry(option->get_name(true), option->get_description());
  const std::string value = value_name(*option);
  std::string text = option->get_description();
  if (option->get_required()) text += " (required)";
  return entry(option->get_name(false, true) + (value.empty() ? "" : " " + value), text);
}

std::string HelpFormatter::make_help(const CLI::App* command, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = Formatter::make_help(command, std::move(name), mode);
  for (size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

}  // namespace plimsoll::cli
