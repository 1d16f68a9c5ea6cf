// plimsoll convert: a model file in another form of Keras.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/file_options.h"
#include "data/dataset.h"
#include "formats/model_file.h"
#include "run/open_data.h"
#include "train/self_test.h"

namespace plimsoll::cli {
namespace {

struct ConvertCommand {
  std::string in;
  std::string out;
  FileOptions file;
  std::string self_test;  // samples
};

void check_self_test_output(const ConvertCommand& command, const formats::LoadedModel& loaded) {
  const bool kept = command.out.ends_with(".keras") ||
                    (command.out.ends_with(".h5") && !command.out.ends_with(".weights.h5"));
  if (kept && loaded.weights != nullptr) return;
  throw Error(ErrorKind::kConfig,
              "--self-test: expected a model with weights written to .keras or .h5, received " +
                  command.out + ".");
}

int run(const ConvertCommand& command) {
  formats::check_output_name(command.out);
  formats::LoadedModel loaded = formats::load_model(command.in, load_options(command.file));
  const bool structure_only = command.out.ends_with(".json");
  if (loaded.weights == nullptr && !structure_only && loaded.model.parameters().total() > 0) {
    throw Error(ErrorKind::kConfig, command.in + ": expected weights to write into " + command.out +
                                        ", received a structure alone. Give them by --weights "
                                        "FILE, or write a .json file.");
  }
  const train::SessionOptions session;
  if (loaded.self_test != nullptr && loaded.weights != nullptr) {
    train::check_self_test(command.in, loaded.model, *loaded.weights, *loaded.self_test, session);
  }
  if (!command.self_test.empty()) {
    check_self_test_output(command, loaded);
    data::DatasetOptions how;
    how.data = command.self_test;
    run::name_ports(loaded.model, layers::CompileOptions(), how);
    data::Dataset samples = data::open_dataset(how);
    samples.targets.clear();
    loaded.self_test = train::make_self_test(loaded.model, *loaded.weights, samples, session);
  }
  NoTensors none;
  TensorSource& state = loaded.weights ? *loaded.weights : static_cast<TensorSource&>(none);
  formats::save_model(command.out, loaded.model, loaded.compile ? &*loaded.compile : nullptr, state,
                      loaded.self_test.get());
  std::fprintf(stderr, "wrote %s\n", command.out.c_str());
  return kDone;
}

}  // namespace

Command add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertCommand>();
  CLI::App* command = app.add_subcommand("convert", "Write a model in another form of Keras");
  command->add_option("IN", options->in, "Model file: .keras, .h5 or Keras JSON")->required();
  command
      ->add_option("OUT", options->out,
                   "New file: .keras, .h5 (whole), .weights.h5, or .json (structure)")
      ->required();
  add_file_options(*command, options->file);
  command->add_option("--self-test", options->self_test,
                      "Samples (.npy, .npz) to keep in OUT with the model's predictions on them");
  return [options] { return run(*options); };
}

}  // namespace plimsoll::cli
