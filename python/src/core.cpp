// plimsoll._core: the engine for a model that lives in a Python program.
//
// Arguments are checked and completed in Python (plimsoll/model, data.py); here they become the
// requests that every face makes (run/request.h). The interpreter's lock is given back while the
// engine works and taken for each call into Python.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "array_sink.h"
#include "base/error.h"
#include "base/format.h"
#include "caller.h"
#include "formats/keras/live_model.h"
#include "gradients.h"
#include "layers/training/optimizers.h"
#include "manners.h"
#include "memory.h"
#include "ranks.h"
#include "report/plan_page.h"
#include "report/plan_summary.h"
#include "report/plan_text.h"
#include "run/predictions.h"
#include "run/run.h"
#include "run/settings.h"
#include "state.h"
#include "train/session.h"
#include "watched.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace plimsoll::python {
namespace {

using Variable = std::tuple<std::string, std::string, std::string, std::vector<int64_t>>;

Variable describe(const std::string& path, const TensorInfo& info) {
  return {path, info.name, std::string(to_string(info.dtype)), info.shape};
}

nb::dict memory_of(const train::MemoryReport& report) {
  nb::dict memory;
  memory["planned_arena"] = report.planned_arena.count();
  memory["measured_arena"] = report.measured_arena.count();
  memory["predicted"] = report.predicted_process.count();
  memory["passed_limit"] = report.passed_limit;
  return memory;
}

// Numbers name[0], name[1], … as one array, as Keras has them, and those of `arrays` even alone.
nb::dict to_dict(const train::Metrics& metrics, const std::vector<std::string>& arrays = {}) {
  nb::dict values;
  const auto array_of = [](const nb::list& numbers) {
    return nb::module_::import_("numpy").attr("array")(numbers, "float32");
  };
  const auto is_array = [&](std::string_view name) {
    if (std::ranges::find(arrays, name) != arrays.end()) return true;
    return name.starts_with("val_") && std::ranges::find(arrays, name.substr(4)) != arrays.end();
  };
  for (size_t i = 0; i < metrics.size(); ++i) {
    const std::string& name = metrics[i].first;
    if (!name.ends_with("[0]")) {
      values[name.c_str()] = metrics[i].second;
      if (is_array(name)) {
        nb::list alone;
        alone.append(metrics[i].second);
        values[name.c_str()] = array_of(alone);
      }
      continue;
    }
    const std::string stem = name.substr(0, name.size() - 3);
    nb::list several;
    for (size_t k = 0; i + k < metrics.size(); ++k) {
      if (metrics[i + k].first != fmt::format("{}[{}]", stem, k)) break;
      several.append(metrics[i + k].second);
    }
    i += nb::len(several) - 1;
    values[stem.c_str()] = array_of(several);
  }
  return values;
}

// Limits as whoever asked names them: of the whole process, what others may take included.
report::PlanSummary as_named(report::PlanSummary summary, std::optional<int64_t> named,
                             const nb::object& limit_of) {
  const auto raise = [&](Bytes& bytes, bool enough = true) {
    if (bytes > Bytes()) bytes = Bytes(nb::cast<int64_t>(limit_of(bytes.count(), enough)));
  };
  if (named && summary.limit) {
    summary.reserve = Bytes(*named) - *summary.limit;
    summary.limit = Bytes(*named);
  }
  for (Bytes* one : {&summary.smallest_feasible, &summary.smallest_same_bits, &summary.free_plan}) {
    raise(*one);
  }
  raise(summary.lower_bound, false);
  if (summary.lower_bound_with_spill) raise(*summary.lower_bound_with_spill, false);
  if (summary.smallest_with_spill) raise(*summary.smallest_with_spill);
  for (auto* points : {&summary.frontier, &summary.plain}) {
    for (plan::FrontierPoint& point : *points) raise(point.arena_bytes);
  }
  if (summary.refusal) {
    for (report::Remedy& remedy : summary.refusal->remedies) raise(remedy.smallest);
    if (summary.refusal->bound) raise(summary.refusal->bound->bytes, false);
  }
  return summary;
}

constexpr Bytes kKeptData = 1_MiB;  // what converting rows of arrays takes

// How a session is kept (run::KeptRequest).
struct Kept {
  run::Settings settings;
  int64_t short_batch = 0;
  int64_t rows = 0;  // that predictions are held of
  bool go_on_counting = false;
  bool taken = false;  // set by training: the session has all of the state, whatever comes after
};

class Engine {
 public:
  Engine(const std::string& config, const std::string& origin)
      : live_(formats::read_live_model(config, origin)), run_(live_.model, live_.compile) {
    for (const formats::LiveVariable& weight : formats::live_weights(live_.model)) {
      paths_.push_back(weight.path);
      infos_.push_back(weight.tensor);
    }
    weight_count_ = infos_.size();
    for (const TensorInfo& info : infos_) shapes_[info.name] = info.shape;
    if (!live_.compile) return;
    for (TensorInfo& info : formats::live_optimizer_variables(live_.model, *live_.compile)) {
      paths_.push_back(fmt::format("optimizer/vars/{}", infos_.size() - weight_count_));
      infos_.push_back(std::move(info));
    }
  }

  // (path, state, dtype, shape) of every weight, then of every variable of the optimizer.
  std::vector<Variable> variables() const {
    std::vector<Variable> all;
    for (size_t i = 0; i < infos_.size(); ++i) all.push_back(describe(paths_[i], infos_[i]));
    return all;
  }
  size_t weight_count() const { return weight_count_; }
  size_t input_count() const { return live_.model.inputs().size(); }
  std::vector<std::string> input_names() const { return names_of(live_.model.inputs()); }
  std::vector<std::string> output_names() const { return names_of(live_.model.outputs()); }

  // Takes the first `count` variables by `read(index)`.
  void adopt(const nb::object& read, size_t count) {
    std::vector<TensorInfo> infos(
        infos_.begin(), infos_.begin() + static_cast<ptrdiff_t>(std::min(count, infos_.size())));
    auto tensors = std::make_unique<PythonTensors>(std::move(infos), read);
    const nb::gil_scoped_release release;
    run_.adopt(std::move(tensors));
  }

  // Where each variable begins in a file of them all, and where the last one ends.
  std::vector<int64_t> offsets() const { return offsets_in_file(infos_); }
  // Takes the first `count` variables from such a file that begins at `begin`, when they are
  // needed.
  void adopt_file(const std::string& path, int64_t begin, size_t count) {
    std::vector<TensorInfo> infos(
        infos_.begin(), infos_.begin() + static_cast<ptrdiff_t>(std::min(count, infos_.size())));
    const nb::gil_scoped_release release;
    run_.adopt(std::make_unique<FileTensors>(std::move(infos), path, begin));
  }
  // Writes each variable as it is now; returns those that there are.
  std::vector<size_t> give_file(const std::string& path, int64_t begin) {
    const nb::gil_scoped_release release;
    return write_tensors(run_.state(), infos_, path, begin);
  }

  // Calls `take(index, array)` for each variable as it is now; the array is that call's alone.
  void give(const nb::object& take, bool weights_only) {
    TensorSource& state = run_.state();
    std::map<std::string_view, size_t> known;
    for (size_t i = 0; i < state.tensors().size(); ++i) known[state.tensors()[i].name] = i;
    const size_t end = weights_only ? weight_count_ : infos_.size();
    for (size_t i = 0; i < end; ++i) {
      const auto found = known.find(infos_[i].name);
      if (found == known.end()) continue;
      take(i, read_array(state, found->second));
    }
  }

  nb::dict fit(const run::Settings& settings, const Arrays& arrays, const Arrays& validation,
               const std::optional<Array>& order, bool skip_validation, bool every_step,
               bool every_test, bool ends_on_nan, int64_t seen_steps, nb::object listener) {
    run::FitRequest request;
    request.not_finite = ends_on_nan ? train::NotFinite::kEndsTraining : train::NotFinite::kGoesOn;
    request.settings = settings;
    request.seen_steps = seen_steps;
    request.data.opened = dataset_of(arrays, order);
    if (!validation.x.empty()) request.validation.opened = dataset_of(validation, std::nullopt);
    request.skip_validation = skip_validation;
    request.ends_training = false;  // of several epochs, whose end Keras's own call follows
    request.shuffle = "none";
    Caller caller(std::move(listener), every_step, every_test);
    run::FitResult result;
    {
      const nb::gil_scoped_release release;
      result = run_.fit(request, caller);
    }
    nb::dict ended;
    ended["logs"] = told(result.summary.metrics);
    ended["steps"] = result.history.steps;
    ended["interrupted"] = result.history.interrupted;
    ended["seconds_per_step"] = result.history.seconds_per_step;
    return ended;
  }

  nb::dict evaluate(const run::Settings& settings, const Arrays& arrays, nb::object listener) {
    run::EvaluateRequest request;
    request.settings = settings;
    request.data.opened = dataset_of(arrays, std::nullopt);
    Caller caller(std::move(listener), false);
    run::Evaluation result;
    {
      const nb::gil_scoped_release release;
      result = run_.evaluate(request, caller);
    }
    return to_dict(result.metrics);
  }

  nb::list predict(const run::Settings& settings, const Arrays& arrays, nb::object listener) {
    run::PredictRequest request;
    request.settings = settings;
    request.data.opened = dataset_of(arrays, std::nullopt);
    Caller caller(std::move(listener), false);
    std::optional<ArraySink> sink;
    {
      const nb::gil_scoped_release release;
      const auto open = [&](int64_t rows) -> OutputSink& {
        return sink.emplace(live_.model, rows);
      };
      run_.predict(request, open, bytes_of_row(), caller);
    }
    return sink->give();
  }

  // The loss of one step; `short_batch` as in run::StepsRequest.
  double step(const run::Settings& settings, const Arrays& arrays, int64_t short_batch, bool train,
              int64_t seen_steps, nb::object listener) {
    run::StepsRequest request;
    request.settings = settings;
    request.seen_steps = seen_steps;
    request.short_batch = short_batch;
    request.sample_weights = !arrays.weights.empty();
    request.data = kKeptData;
    const std::shared_ptr<data::Dataset> dataset = dataset_of(arrays, std::nullopt);
    Caller caller(std::move(listener), false);
    const nb::gil_scoped_release release;
    return run_.step(request, *dataset, train, caller);
  }

  // Calls in a session that is kept between them (run::KeptRequest); `state`: what Keras's
  // variables hold, as buffers in the order of variables().

  // None among them: the session has it, of the steps before. It does not end with an error then,
  // so that the state can be had from it.
  nb::dict train_kept(Kept& kept, const Arrays& arrays, const nb::list& state,
                      nb::object listener) {
    kept.taken = false;
    BorrowedTensors borrowed(infos_, state);
    train::Metrics metrics;
    in_session(run::KeptRequest::Kind::kTrain, kept, arrays, borrowed, std::move(listener),
               [&](train::Session& session, data::Dataset& dataset) {
                 kept.taken = true;
                 int64_t steps = 0;  // by which dropout draws
                 session.read_state(std::string(layers::kIterationState),
                                    std::as_writable_bytes(std::span(&steps, 1)));
                 session.set_steps(steps);
                 session.run_rows("train", dataset, 0, dataset.row_count(), true);
                 metrics = session.read_metrics();
               });
    return told(metrics);
  }

  // Of these variables those that the session of train_kept has other bytes of than `held`, as
  // (index, array).
  nb::list changed_since(const std::vector<size_t>& indices, const nb::list& held) {
    std::vector<TensorInfo> infos;
    for (const size_t i : indices) infos.push_back(infos_.at(i));
    BorrowedTensors borrowed(infos, held);
    std::vector<size_t> changed;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (run_.session_differs(borrowed, i)) changed.push_back(indices[i]);
    }
    return read_arrays(changed);
  }

  nb::dict evaluate_kept(const Kept& kept, const Arrays& arrays, const nb::list& state,
                         nb::object listener) {
    BorrowedTensors borrowed(weights(), state);
    train::Metrics metrics;
    const int64_t batch = kept.settings.batch;
    in_session(run::KeptRequest::Kind::kEvaluate, kept, arrays, borrowed, std::move(listener),
               [&](train::Session& session, data::Dataset& dataset) {
                 if (dataset.row_count() > batch) {
                   metrics = session.evaluate(dataset);
                   return;
                 }
                 session.run_rows("evaluate", dataset, 0, dataset.row_count());
                 metrics = session.read_metrics();
               });
    return told(metrics);
  }

  nb::list predict_kept(const Kept& kept, const Arrays& arrays, const nb::list& state,
                        nb::object listener) {
    BorrowedTensors borrowed(weights(), state);
    std::optional<ArraySink> sink;
    in_session(run::KeptRequest::Kind::kPredict, kept, arrays, borrowed, std::move(listener),
               [&](train::Session& session, data::Dataset& dataset) {
                 sink.emplace(live_.model, dataset.row_count());
                 session.predict(dataset, *sink);
               });
    return sink->give();
  }

  // Steps of a loop of somebody's own (gradients.h), on weights as in evaluate_kept and on all
  // variables as in train_kept. (loss, logs, variables that have changed)
  void begin_steps(bool sums, int64_t step) { gradients_.begin(sums, step); }
  nb::tuple accumulate(const Kept& kept, const Arrays& arrays, const nb::list& state,
                       nb::object listener) {
    BorrowedTensors borrowed(weights(), state);
    const std::shared_ptr<data::Dataset> dataset = dataset_of(arrays, std::nullopt);
    run::StepsRequest request = steps_request(kept);
    request.sample_weights = !arrays.weights.empty();
    describe_rows(*dataset, request);
    Caller caller(std::move(listener), false);
    double loss = 0;
    {
      const nb::gil_scoped_release release;
      loss = gradients_.accumulate(run_, request, borrowed, *dataset, caller);
    }
    return nb::make_tuple(loss, told(run_.metrics()), read_changed(borrowed));
  }
  nb::list apply(const Kept& kept, const Gradients::Given& given, const nb::list& state,
                 nb::object listener) {
    BorrowedTensors borrowed(infos_, state);
    Caller caller(std::move(listener), false);
    {
      const nb::gil_scoped_release release;
      gradients_.apply(run_, steps_request(kept), borrowed, given, caller);
    }
    return read_changed(borrowed);
  }
  nb::dict gradients() { return gradients_.read(run_, shapes_); }
  void forget_gradients() { gradients_.forget(run_); }
  bool has_gradients() const { return gradients_.pending(); }

  // Bytes of the session that is kept beside the engine itself; 0: there is none.
  int64_t held() { return run_.has_session() ? run_.held().count() : 0; }

  // spell: (option of the command line, its value, whether it is left out) as text. named: the
  // limit as its user has named it (None: none), and which limit leaves the engine so many bytes;
  // text and page are in such figures.
  nb::dict plan(const run::Settings& settings, nb::object listener, const nb::object& spell,
                std::optional<int64_t> named, const nb::object& limit_of) {
    run::FitRequest request;
    request.settings = settings;
    Caller caller(std::move(listener), false);
    planning::PlannedRun planned;
    {
      const nb::gil_scoped_release release;
      planned = run_.plan(request, "", caller);
    }
    nb::dict answer;
    answer["json"] = report::to_json(planned.summary);
    const report::Spelling spelling = [&](const report::OptionChange& change) {
      return nb::cast<std::string>(spell(change.option, change.value, change.left_out));
    };
    const report::PlanSummary told = as_named(planned.summary, named, limit_of);
    answer["text"] = report::to_text(told, !settings.memory, spelling);
    answer["html"] = report::to_html(told);
    answer["fits"] = planned.summary.fits();
    if (planned.summary.fits()) return answer;
    answer["needed"] = report::needed(planned.summary).count();
    answer["refusal"] = report::to_refusal(told, spelling);
    return answer;
  }

  void reset_metrics() { run_.reset_metrics(); }
  nb::dict metrics() { return told(run_.metrics()); }
  nb::dict memory() { return memory_of(run_.memory()); }
  void set_learning_rate(double rate) { run_.set_learning_rate(rate); }
  bool trains() const { return run_.has_session(); }
  bool runs() const { return run_.is_running(); }
  void request_stop() { run_.request_stop(); }
  // Not what runs: a call inside of another one ends as if it had not been made.
  void close() {
    if (run_.is_running()) return;
    const nb::gil_scoped_release release;
    run_.close();
  }

 private:
  nb::dict told(const train::Metrics& metrics) const {
    return to_dict(metrics, run_.has_session() ? run_.array_metrics() : std::vector<std::string>{});
  }
  static std::vector<std::string> names_of(const std::vector<layers::ModelPort>& ports) {
    std::vector<std::string> names;
    for (const layers::ModelPort& port : ports) names.push_back(port.name);
    return names;
  }

  std::span<const TensorInfo> weights() const {
    return std::span<const TensorInfo>(infos_).first(weight_count_);
  }

  // Predictions of a row, as arrays of Python's.
  Bytes bytes_of_row() const {
    Bytes held;
    for (const layers::ModelPort& port : live_.model.outputs()) {
      held += element_bytes(DType::kFloat32) * port.type.shape.elements_per_sample();
    }
    return held;
  }

  template <typename Work>
  void in_session(run::KeptRequest::Kind kind, const Kept& kept, const Arrays& arrays,
                  TensorSource& state, nb::object listener, const Work& work) {
    const size_t count = kind == run::KeptRequest::Kind::kTrain ? infos_.size() : weight_count_;
    run::KeptRequest request;
    request.kind = kind;
    request.settings = kept.settings;
    request.short_batch = kept.short_batch;
    request.go_on_counting = kept.go_on_counting;
    request.has_state = state.tensors().size() < count;
    request.sample_weights = !arrays.weights.empty();
    request.data = kKeptData;
    if (kind == run::KeptRequest::Kind::kPredict) request.data += bytes_of_row() * kept.rows;
    const std::shared_ptr<data::Dataset> dataset = dataset_of(arrays, std::nullopt);
    describe_rows(*dataset, request);
    Caller caller(std::move(listener), false);
    const nb::gil_scoped_release release;
    run_.keep(request, state, caller, [&](train::Session& session) { work(session, *dataset); });
  }

  static run::StepsRequest steps_request(const Kept& kept) {
    run::StepsRequest request;
    request.settings = kept.settings;
    request.short_batch = kept.short_batch;
    request.evaluates = false;
    request.data = kKeptData;
    return request;
  }

  nb::list read_changed(TensorSource& state) {
    std::vector<size_t> changed;
    for (size_t i = 0; i < state.tensors().size(); ++i) {
      if (run_.session_differs(state, i)) changed.push_back(i);
    }
    return read_arrays(changed);
  }

  // State variables of the session as (index, array), each in memory of its own at an address that
  // TensorFlow uses in place.
  nb::list read_arrays(const std::vector<size_t>& indices) {
    constexpr size_t kAlignment = 64;
    nb::list arrays;
    for (const size_t i : indices) {
      const size_t bytes = tensor_bytes(infos_[i].dtype, fixed_shape(infos_[i].shape), 1).size();
      const size_t size = std::max<size_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
      auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
      if (memory == nullptr) throw std::bad_alloc();
      const nb::capsule owner(memory, [](void* held) noexcept { std::free(held); });
      {
        const nb::gil_scoped_release release;
        run_.read_session(infos_[i].name, {memory, bytes});
      }
      arrays.append(nb::make_tuple(i, array_at(memory, infos_[i], owner)));
    }
    return arrays;
  }

  static nb::object array_at(void* values, const TensorInfo& info, nb::handle owner) {
    const std::vector<size_t> shape(info.shape.begin(), info.shape.end());
    const nb::dlpack::dtype type = info.dtype == DType::kInt64   ? nb::dtype<int64_t>()
                                   : info.dtype == DType::kInt32 ? nb::dtype<int32_t>()
                                                                 : nb::dtype<float>();
    return nb::cast(
        nb::ndarray<nb::numpy>(values, shape.size(), shape.data(), owner, nullptr, type));
  }

  static nb::object read_array(TensorSource& state, size_t index) {
    const TensorInfo& info = state.tensors()[index];
    const size_t bytes = tensor_bytes(info.dtype, fixed_shape(info.shape), 1).size();
    auto values = std::make_unique<std::byte[]>(std::max<size_t>(bytes, 1));
    {
      const nb::gil_scoped_release release;
      state.read(index, 0, std::span(values.get(), bytes));
    }
    std::byte* const held = values.release();
    const nb::capsule owner(held,
                            [](void* data) noexcept { delete[] static_cast<std::byte*>(data); });
    return array_at(held, info, owner);
  }

  formats::LiveModel live_;
  run::Run run_;
  std::vector<std::string> paths_;
  std::vector<TensorInfo> infos_;  // weights, then the optimizer's
  size_t weight_count_ = 0;
  std::map<std::string, std::vector<int64_t>> shapes_;  // of weights
  Gradients gradients_;
};

void bind_settings(nb::module_& module) {
  nb::enum_<planning::SpillUse>(module, "Spill")
      .value("IF_NEEDED", planning::SpillUse::kIfNeeded)
      .value("NEVER", planning::SpillUse::kNever)
      .value("ALWAYS", planning::SpillUse::kAlways);
  nb::class_<run::Settings>(module, "Settings")
      .def(nb::init<>())
      .def_rw("batch", &run::Settings::batch)
      .def_prop_rw(
          "memory",
          [](const run::Settings& settings) -> std::optional<int64_t> {
            if (!settings.memory) return std::nullopt;
            return settings.memory->count();
          },
          [](run::Settings& settings, std::optional<int64_t> bytes) {
            settings.memory.reset();
            if (bytes) settings.memory = Bytes(*bytes);
          },
          nb::arg().none())
      .def_prop_rw(
          "given", [](const run::Settings& settings) { return settings.given.count(); },
          [](run::Settings& settings, int64_t bytes) { settings.given = Bytes(bytes); })
      .def_rw("precision", &run::Settings::precision)
      .def_rw("parts", &run::Settings::parts)
      .def_rw("lanes", &run::Settings::lanes)
      .def_rw("threads", &run::Settings::threads)
      .def_rw("seed", &run::Settings::seed)
      .def_rw("backend", &run::Settings::backend)
      .def_rw("plan_time", &run::Settings::plan_time, nb::arg().none())
      .def_rw("max_slowdown", &run::Settings::max_slowdown, nb::arg().none())
      .def_rw("without", &run::Settings::without)
      .def_rw("times", &run::Settings::times)
      .def_rw("tune", &run::Settings::tune)
      .def_rw("spill", &run::Settings::spill)
      .def_rw("spill_directory", &run::Settings::spill_directory);
}

void bind_engine(nb::module_& module) {
  nb::class_<Kept>(module, "Kept")
      .def(nb::init<>())
      .def_rw("settings", &Kept::settings)
      .def_rw("short_batch", &Kept::short_batch)
      .def_rw("rows", &Kept::rows)
      .def_rw("go_on_counting", &Kept::go_on_counting)
      .def_rw("taken", &Kept::taken);
  module.def("same_items", &same_items, "watched"_a);
  module.def("same_values", &same_values, "watched"_a);
  module.def("same_attributes", &same_attributes, "watched"_a);
  nb::class_<Arrays>(module, "Arrays")
      .def(
          "__init__",
          [](Arrays* arrays, std::vector<Array> x, std::vector<Array> y,
             std::vector<Array> weights) {
            new (arrays) Arrays{std::move(x), std::move(y), std::move(weights)};
          },
          "x"_a, "y"_a, "weights"_a);
  nb::class_<Engine>(module, "Engine")
      .def(nb::init<const std::string&, const std::string&>(), "config"_a, "origin"_a)
      .def("variables", &Engine::variables)
      .def_prop_ro("weight_count", &Engine::weight_count)
      .def_prop_ro("input_names", &Engine::input_names)
      .def_prop_ro("output_names", &Engine::output_names)
      .def("adopt", &Engine::adopt, "read"_a, "count"_a)
      .def("offsets", &Engine::offsets)
      .def("adopt_file", &Engine::adopt_file, "path"_a, "begin"_a, "count"_a)
      .def("give_file", &Engine::give_file, "path"_a, "begin"_a)
      .def("give", &Engine::give, "take"_a, "weights_only"_a)
      .def("fit", &Engine::fit, "settings"_a, "arrays"_a, "validation"_a, "order"_a.none(),
           "skip_validation"_a, "every_step"_a, "every_test"_a, "ends_on_nan"_a, "seen_steps"_a,
           "listener"_a)
      .def("evaluate", &Engine::evaluate, "settings"_a, "arrays"_a, "listener"_a)
      .def("predict", &Engine::predict, "settings"_a, "arrays"_a, "listener"_a)
      .def("step", &Engine::step, "settings"_a, "arrays"_a, "short_batch"_a, "train"_a,
           "seen_steps"_a, "listener"_a)
      .def("train_kept", &Engine::train_kept, "kept"_a, "arrays"_a, "state"_a, "listener"_a)
      .def("changed_since", &Engine::changed_since, "indices"_a, "held"_a)
      .def("evaluate_kept", &Engine::evaluate_kept, "kept"_a, "arrays"_a, "state"_a, "listener"_a)
      .def("predict_kept", &Engine::predict_kept, "kept"_a, "arrays"_a, "state"_a, "listener"_a)
      .def("begin_steps", &Engine::begin_steps, "sums"_a, "step"_a)
      .def("accumulate", &Engine::accumulate, "kept"_a, "arrays"_a, "state"_a, "listener"_a)
      .def("apply", &Engine::apply, "kept"_a, "given"_a, "state"_a, "listener"_a)
      .def("gradients", &Engine::gradients)
      .def("forget_gradients", &Engine::forget_gradients)
      .def_prop_ro("has_gradients", &Engine::has_gradients)
      .def_prop_ro("held", &Engine::held)
      .def("reset_metrics", &Engine::reset_metrics)
      .def("plan", &Engine::plan, "settings"_a, "listener"_a, "spell"_a, "named"_a.none(),
           "limit_of"_a)
      .def("metrics", &Engine::metrics)
      .def("memory", &Engine::memory)
      .def("set_learning_rate", &Engine::set_learning_rate, "rate"_a)
      .def_prop_ro("trains", &Engine::trains)
      .def_prop_ro("runs", &Engine::runs)
      .def("request_stop", &Engine::request_stop)
      .def("close", &Engine::close);
}

// Raised with (kind, message, bytes that the run needs or 0: not known); plimsoll/errors.py turns
// it into what users catch. Of a limit that is not met the message is why.
void bind_errors(nb::module_& module) {
  static nb::object engine_error =
      nb::steal(PyErr_NewException("plimsoll._core.EngineError", PyExc_RuntimeError, nullptr));
  module.attr("EngineError") = engine_error;
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const train::DoesNotFit& error) {
      const nb::object arguments =
          nb::make_tuple(std::string(to_string(error.kind())), report::why_refused(error.summary()),
                         report::needed(error.summary()).count());
      PyErr_SetObject(engine_error.ptr(), arguments.ptr());
    } catch (const Error& error) {
      const nb::object arguments =
          nb::make_tuple(std::string(to_string(error.kind())), std::string(error.what()), 0);
      PyErr_SetObject(engine_error.ptr(), arguments.ptr());
    }
  });
}

}  // namespace
}  // namespace plimsoll::python

NB_MODULE(_core, module) {
  using namespace plimsoll;
  module.attr("__version__") = PLIMSOLL_VERSION;
  module.doc() = "The engine of Plimsoll for models that live in a Python program.";
  python::keep_manners();
  python::bind_errors(module);
  python::bind_settings(module);
  python::bind_engine(module);
  python::bind_ranks(module);
  module.def(
      "parse_memory",
      [](const std::string& text) -> std::optional<int64_t> {
        const std::optional<Bytes> bytes = run::parse_memory("memory", text);
        if (!bytes) return std::nullopt;
        return bytes->count();
      },
      "text"_a, "Bytes of a limit as the command line takes it: 512MiB, 75%, auto.");
  module.def(
      "parse_size",
      [](const std::string& name, const std::string& text) -> std::optional<int64_t> {
        const std::optional<Bytes> bytes = run::parse_size(name, text);
        if (!bytes) return std::nullopt;
        return bytes->count();
      },
      "name"_a, "text"_a, "Bytes of another size, spelled alike; `name`: what errors call it.");
  python::bind_memory(module);
  module.def("error_kinds", [] {
    std::vector<std::string> kinds;
    for (const ErrorKind kind :
         {ErrorKind::kConfig, ErrorKind::kBudget, ErrorKind::kModel, ErrorKind::kData,
          ErrorKind::kIo, ErrorKind::kBackend, ErrorKind::kInternal}) {
      kinds.emplace_back(to_string(kind));
    }
    return kinds;
  });
}
