// plimsoll show: layers, shapes, parameters and memory per sample.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "formats/model_file.h"
#include "layers/model.h"
#include "report/table.h"

namespace plimsoll::cli {
namespace {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

int run(const std::string& path) {
  const formats::LoadedModel loaded = formats::load_model(path);
  report::Table table({"layer", "output", "parameters", "bytes/sample", "from"});
  for (const layers::LayerRow& row : layers::summarize(loaded.model)) {
    table.add({row.name + " (" + row.class_name + ")", row.output_shape,
               report::format_count(row.parameters.total()),
               report::format_count(row.output_bytes_per_sample.count()), join(row.inputs)});
  }
  const layers::ParameterCounts counts = loaded.model.parameters();
  std::printf("%s\n%s\nparameters: %s, trainable %s, frozen %s (%s)\n", loaded.model.name().c_str(),
              table.print().c_str(), report::format_count(counts.total()).c_str(),
              report::format_count(counts.trainable).c_str(),
              report::format_count(counts.frozen).c_str(),
              to_string(Bytes(counts.total() * element_bytes(DType::kFloat32).count())).c_str());
  return kDone;
}

}  // namespace

Command add_show(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("show", "Layers, shapes, parameters, memory per sample");
  command->add_option("MODEL", *path, "Model file: .keras or Keras JSON")->required();
  return [path] { return run(*path); };
}

}  // namespace plimsoll::cli
