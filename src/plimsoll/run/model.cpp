#include "run/model.h"

#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "layers/training/batch_norm_groups.h"
#include "run/settings.h"
#include "train/self_test.h"

namespace plimsoll::run {
namespace {

// Commas outside of parentheses.
std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

// What the request says of training, in place of what the file says.
void complete(const ModelRequest& request, LoadedModel& loaded) {
  if (!request.optimizer.empty()) {
    loaded.compile.optimizer = layers::parse_optimizer(request.optimizer);
    // Another optimizer starts afresh: the file's slots and learning rate are not its own.
    loaded.file.weights = formats::without_optimizer(std::move(loaded.file.weights));
  }
  if (!request.loss.empty()) {
    layers::replace_losses(loaded.compile, {layers::parse_loss(request.loss)});
  }
  if (!request.metrics.empty()) {
    std::vector<layers::Config> metrics;
    for (const std::string& name : split_list(request.metrics)) {
      metrics.push_back(layers::parse_metric(name));
    }
    layers::replace_metrics(loaded.compile, std::move(metrics));
  }
}

void refuse_what_lacks(const std::string& path, const layers::CompileOptions& compile,
                       Needs needs) {
  const std::string where = path + " holds no training configuration: ";
  if (needs.optimizer && compile.optimizer.is_null()) {
    throw Error(ErrorKind::kConfig, where + "expected --optimizer, for example --optimizer adam");
  }
  if (needs.loss && compile.losses.empty() && compile.unread_loss.empty()) {
    throw Error(ErrorKind::kConfig,
                where + "expected --loss, for example --loss sparse_categorical_crossentropy");
  }
}

}  // namespace

LoadedModel load(const ModelRequest& request, const Settings& settings, Needs needs,
                 Listener& listener) {
  const MemoryTag tag(MemoryPart::kFiles);
  const layers::Precision precision = layers::parse_precision(settings.precision);
  std::optional<int64_t> group;
  if (!request.batch_norm.empty()) group = layers::parse_batch_norm(request.batch_norm);
  LoadedModel loaded{
      formats::load_model(request.path, {request.weights, request.input_shapes}), {}, {}};
  if (loaded.file.self_test != nullptr && loaded.file.weights != nullptr) {
    train::check_self_test(request.path, loaded.file.model, *loaded.file.weights,
                           *loaded.file.self_test, session_options(settings));
  }
  if (loaded.file.compile) loaded.compile = *loaded.file.compile;
  loaded.compile.precision = precision;
  if (group) loaded.compile.batch_norm_group = *group;
  complete(request, loaded);
  refuse_what_lacks(request.path, loaded.compile, needs);
  if (const std::string note = layers::precision_note(loaded.file.model, precision);
      !note.empty()) {
    listener.notice(request.path + ": " + note);
  }
  if (needs.loss) {
    loaded.left_out_metrics = layers::left_out_metrics(loaded.file.model, loaded.compile);
    for (const std::string& line : loaded.left_out_metrics) {
      listener.notice(request.path + ": " + line);
    }
  }
  return loaded;
}

}  // namespace plimsoll::run
