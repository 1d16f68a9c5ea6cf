#include "property/hand_plan.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "backend/kernel/backends.h"
#include "base/error.h"
#include "base/file.h"
#include "graph/text.h"
#include "ops/registry.h"
#include "plan/tree/complete.h"
#include "plan/tree/text.h"
#include "toys/toy_backend.h"

namespace plimsoll::property {
namespace {

const std::string kFolder = "golden/hand_plans/";

using Boxes = std::map<std::string, graph::Block>;  // by program and node

// Another backend's catalog, with some blocks of its own.
class BlockedCatalog final : public graph::KernelCatalog {
 public:
  BlockedCatalog(const graph::KernelCatalog& inner, std::map<std::string, graph::Block> boxes)
      : inner_(inner), boxes_(std::move(boxes)) {}
  std::string kernel_set() const override {
    return inner_.kernel_set() + (boxes_.empty() ? "" : ";by_hand");
  }
  int block_set() const override { return inner_.block_set(); }
  int part_count() const override { return inner_.part_count(); }
  int thread_count() const override { return inner_.thread_count(); }
  graph::Block block(const graph::Graph& graph, graph::NodeId node) const override {
    const auto box = boxes_.find(graph.node(node).name);
    return box == boxes_.end() ? inner_.block(graph, node) : box->second;
  }
  Bytes scratch(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                std::span<const int64_t> extents,
                std::span<const std::string> forms) const override {
    return inner_.scratch(graph, node, batch, extents, forms);
  }
  double seconds(const graph::Graph& graph, graph::NodeId node, int64_t batch,
                 std::span<const int64_t> extents) const override {
    return inner_.seconds(graph, node, batch, extents);
  }
  bool row_exact(const graph::Graph& graph, graph::NodeId node, int axis) const override {
    return inner_.row_exact(graph, node, axis);
  }
  double spill_seconds(Bytes bytes, Spill direction) const override {
    return inner_.spill_seconds(bytes, direction);
  }
  double copy_seconds(Bytes bytes) const override { return inner_.copy_seconds(bytes); }

 private:
  const graph::KernelCatalog& inner_;
  std::map<std::string, graph::Block> boxes_;
};

class BlockedBackend final : public backend::Backend {
 public:
  BlockedBackend(std::unique_ptr<backend::Backend> inner, std::map<std::string, graph::Block> boxes)
      : inner_(std::move(inner)), catalog_(inner_->catalog(), std::move(boxes)) {}
  std::string_view name() const override { return inner_->name(); }
  const graph::KernelCatalog& catalog() const override { return catalog_; }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) override {
    return inner_->make_kernel(request);
  }
  std::unique_ptr<backend::Kernel> make_encoder(const backend::EncoderRequest& request) override {
    return inner_->make_encoder(request);
  }
  backend::ResidentBytes resident_bytes(const graph::ProgramSet& programs) const override {
    return inner_->resident_bytes(programs);
  }

 private:
  std::unique_ptr<backend::Backend> inner_;
  BlockedCatalog catalog_;
};

// A file as read: its own lines by their first word, and the plan's.
struct HandFile {
  std::vector<std::pair<std::string, std::string>> directives;
  std::vector<std::string> lines;
};

std::string trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin);
}

// Takes "-" lines out of `lines` and puts "+" lines where the last one was.
void change_lines(const HandFile& change, std::vector<std::string>& lines) {
  size_t at = lines.size();
  for (const auto& [word, rest] : change.directives) {
    if (word == "-") {
      const auto found = std::ranges::find(lines, rest, trimmed);
      PLIMSOLL_CHECK(found != lines.end(), "no line " + rest);
      at = static_cast<size_t>(found - lines.begin());
      lines.erase(found);
    } else if (word == "+") {
      lines.insert(lines.begin() + static_cast<int64_t>(at++), rest);
    }
  }
}

HandFile read_hand_file(const std::string& name) {
  std::istringstream text(read_text_file(kFolder + name, 1 << 20));
  HandFile file;
  HandFile base;
  bool in_plan = false;
  for (std::string line; std::getline(text, line);) {
    const std::string word = line.substr(0, line.find(' '));
    in_plan |= word == "plan" || word == "program";
    if (in_plan) {
      file.lines.push_back(line);
    } else if (!line.empty() && word != "#") {
      file.directives.emplace_back(word,
                                   line.size() > word.size() ? line.substr(word.size() + 1) : "");
      if (word == "base") base = read_hand_file(file.directives.back().second);
    }
  }
  if (base.lines.empty()) return file;
  change_lines(file, base.lines);
  base.directives.insert(base.directives.end(), file.directives.begin(), file.directives.end());
  return base;
}

// "NAME train=19": the graph file's programs at these batch sizes.
graph::ProgramSet read_programs(const std::string& text, const graph::OpRegistry& registry) {
  std::istringstream words(text);
  std::string name;
  words >> name;
  graph::ProgramSet set = graph::parse_programs(read_text_file(kFolder + name, 1 << 20), registry);
  for (std::string word; words >> word;) {
    const size_t sign = word.find('=');
    for (graph::Program& program : set.programs) {
      if (program.name == word.substr(0, sign)) program.batch = std::stoll(word.substr(sign + 1));
    }
  }
  return set;
}

std::map<std::string, graph::Block> boxes_of(const plan::Plan& plan,
                                             const graph::ProgramSet& programs) {
  std::map<std::string, graph::Block> boxes;
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const std::vector<graph::Block>& blocks = plan.programs[p].blocks;
    for (size_t n = 0; n < blocks.size(); ++n) {
      const bool cut = std::ranges::any_of(
          blocks[n], [](int64_t extent) { return extent != graph::kWholeAxis; });
      if (cut) boxes[programs.programs[p].graph.nodes[n].name] = blocks[n];
    }
  }
  return boxes;
}

// What is wrong with the numbers of a plan that is complete.
void change_numbers(const HandFile& file, HandPlan& result) {
  plan::ProgramPlan& program = result.plan.programs[0];
  const graph::Graph& graph = result.programs.programs[0].graph;
  for (const auto& [word, rest] : file.directives) {
    std::istringstream words(rest);
    std::string what;
    std::string onto;
    int64_t bytes = 0;
    words >> what;
    if (word == "shift") {
      words >> onto >> bytes;
      program.instances[std::stoul(what.substr(1))].offset =
          program.instances[std::stoul(onto.substr(1))].offset + Bytes(bytes);
    } else if (word == "scratch") {
      words >> bytes;
      const auto understate = [&](std::vector<plan::Item>& items) {
        for (plan::Item& item : items) {
          auto* call = std::get_if<plan::Call>(&item);
          if (call == nullptr || graph.node(call->node).name != what) continue;
          PLIMSOLL_CHECK(call->scratch_bytes >= Bytes(bytes), "no such scratch to take away");
          call->scratch_bytes -= Bytes(bytes);
        }
      };
      understate(program.items);
      for (plan::Loop& loop : program.loops) understate(loop.items);
    }
  }
}

std::unique_ptr<backend::Backend> make_inner(bool toy, std::string_view name,
                                             const std::string& kernel_set) {
  if (toy) return std::make_unique<toys::ToyBackend>();
  backend::KernelSetOptions options{.threads = 1, .block_set = 0, .caps = {}};
  if (!kernel_set.empty()) options = backend::parse_kernel_set(kernel_set);
  return backend::make_backend(name, options);
}

}  // namespace

std::vector<std::string> hand_plan_names(bool wrong) {
  if (!std::filesystem::exists(kFolder)) return {"run_this_in_the_tests_folder"};
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".txt") && name.starts_with("wrong_") == wrong) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

HandPlan load_hand_plan(const std::string& name, std::string_view backend) {
  const HandFile file = read_hand_file(name);
  HandPlan result;
  bool toy = false;
  for (const auto& [word, rest] : file.directives) {
    toy |= word == "operators";
    if (word == "expect") result.expected = rest;
    if (word == "poison") result.poisoned = true;
    if (word == "graph") {
      result.programs = read_programs(rest, toy ? toys::registry() : ops::registry());
    }
  }
  std::string text;
  for (const std::string& line : file.lines) text += line + "\n";
  result.plan = plan::parse(text, result.programs);
  const std::string named = result.plan.kernel_set;
  result.backend = std::make_unique<BlockedBackend>(make_inner(toy, backend, named),
                                                    boxes_of(result.plan, result.programs));
  if (backend != "reference") result.plan.kernel_set.clear();
  // Room after every buffer where something is to be noticed there.
  plan::complete_plan(result.plan, result.programs, result.backend->catalog(),
                      {.gap = Bytes(result.expected == "scratch" ? 64 : 0)});
  change_numbers(file, result);
  return result;
}

}  // namespace plimsoll::property
