// plimsoll show: layers, shapes, parameters, work and memory per sample.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/file_options.h"
#include "formats/model_file.h"
#include "layers/model/model.h"
#include "layers/training/batch_norm_groups.h"
#include "layers/training/layer_costs.h"
#include "report/table.h"
#include "report/units.h"

namespace plimsoll::cli {
namespace {

struct ShowCommand {
  std::string model;
  FileOptions file;
};

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// "float32" of the layer's output.
std::string dtype_of(const layers::Model& model, layers::LayerId id) {
  for (const layers::LayerCall& call : model.calls()) {
    if (call.layer == id) return std::string(to_string(call.output_types[0].dtype));
  }
  return "";
}

std::string trainable_of(const layers::ParameterCounts& parameters) {
  if (parameters.total() == 0) return "";
  if (parameters.frozen == 0) return "yes";
  return parameters.trainable == 0 ? "no" : "partly";
}

void print_totals(const layers::Model& model, double flops, Bytes activations) {
  const layers::ParameterCounts counts = model.parameters();
  std::printf("parameters: %s, trainable %s, frozen %s (%s)\n",
              report::format_count(counts.total()).c_str(),
              report::format_count(counts.trainable).c_str(),
              report::format_count(counts.frozen).c_str(),
              to_string(Bytes(counts.total() * element_bytes(DType::kFloat32).count())).c_str());
  const report::Unit count = report::count_unit(flops);
  std::printf("per sample, forward: %s %s operations, activations of %s\n",
              report::in_unit(flops, count).c_str(), count.name, to_string(activations).c_str());
}

int run(const ShowCommand& command) {
  const formats::LoadedModel loaded =
      formats::load_model(command.model, load_options(command.file));
  const layers::Model& model = loaded.model;
  const auto costs = layers::layer_costs(model);
  double flops = 0;
  Bytes activations;
  double most_flops = 0;
  Bytes most_bytes;
  for (const auto& [name, cost] : costs) {
    flops += cost.flops_per_sample;
    activations += cost.activation_bytes_per_sample;
    most_flops = std::max(most_flops, cost.flops_per_sample);
    most_bytes = max(most_bytes, cost.activation_bytes_per_sample);
  }
  const report::Unit count = report::count_unit(most_flops);
  const report::Unit size = report::size_unit(most_bytes);
  const std::string operations = std::string("operations") + (*count.name ? ", " : "") + count.name;
  report::Table table({"layer", "output", "dtype", "parameters", "trainable", operations,
                       std::string("activations, ") + size.name, "from"});
  const std::vector<layers::LayerRow> rows = layers::summarize(model);
  for (size_t i = 0; i < rows.size(); ++i) {
    const layers::LayerRow& row = rows[i];
    const auto found = costs.find(row.name);
    const layers::LayerCost cost = found == costs.end() ? layers::LayerCost{} : found->second;
    table.add({row.name + " (" + row.class_name + ")", row.output_shape,
               dtype_of(model, layers::LayerId(i)), report::format_count(row.parameters.total()),
               trainable_of(row.parameters), report::in_unit(cost.flops_per_sample, count),
               report::in_unit(cost.activation_bytes_per_sample, size), join(row.inputs)});
  }
  std::printf("%s\n%s\n", model.name().c_str(), table.print().c_str());
  print_totals(model, flops, activations);
  if (loaded.compile && loaded.compile->batch_norm_group > 0) {
    std::printf("batch normalization: %s in training\n",
                layers::batch_norm_text(loaded.compile->batch_norm_group).c_str());
  }
  return kDone;
}

}  // namespace

Command add_show(CLI::App& app) {
  auto options = std::make_shared<ShowCommand>();
  CLI::App* command =
      app.add_subcommand("show", "Layers, shapes, parameters, work and memory per sample");
  command->add_option("MODEL", options->model, "Model file: .keras, .h5 or Keras JSON")->required();
  add_file_options(*command, options->file);
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
