#include "planning/rates.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/spill_folder.h"
#include "exec/tuning.h"
#include "planning/lowering.h"
#include "planning/memory_model.h"

namespace plimsoll::planning {
namespace {

using backend::KernelTimes;
using layers::Config;
using layers::Tensor;

// Of all kernels together, of one precision.
constexpr double kSeconds = 0.5;
// What the largest call's operands take, and more for copying.
constexpr Bytes kRoom = 48_MiB;
constexpr Bytes kDiskSample = 32_MiB;

// A functional model under construction.
class Probe {
 public:
  explicit Probe(const char* name) : model_(name) {}
  Tensor input(Config::Array batch_shape, const char* dtype = "float32") {
    return model_.add_input(
        Config::Object{{"batch_shape", std::move(batch_shape)}, {"dtype", Config(dtype)}});
  }
  Tensor call(const char* layer, const std::vector<Tensor>& inputs, Config::Object config = {}) {
    return model_.call(model_.add_layer(layer, std::move(config)), inputs, Config())[0];
  }
  Tensor convolve(const char* layer, Tensor x, int64_t filters, int64_t size, int64_t stride = 1) {
    Config::Object config = {{"kernel_size", Config::Array{size, size}},
                             {"strides", Config::Array{stride, stride}},
                             {"padding", "same"},
                             {"use_bias", false}};
    if (filters > 0) config.emplace_back("filters", filters);
    return call(layer, {x}, std::move(config));
  }
  Tensor activate(Tensor x, const char* function) {
    return call("Activation", {x}, {{"activation", function}});
  }
  layers::Model finish(Tensor output) {
    model_.set_outputs({output});
    return std::move(model_);
  }

 private:
  layers::Model model_;
};

// Convolutions of few and many channels, of single points and single channels, with what stands
// between them: normalization, activations, sums, products by channel, poolings.
layers::Model image_probe() {
  Probe net("rates_of_images");
  Config::Array shape(1);
  for (const int64_t size : {64, 64, 3}) shape.emplace_back(size);
  Tensor x = net.convolve("Conv2D", net.input(shape), 32, 3);
  x = net.call("ReLU", {net.call("BatchNormalization", {x})});
  Tensor y = net.convolve("Conv2D", x, 128, 1);
  y = net.activate(net.call("BatchNormalization", {y}), "silu");
  y = net.convolve("DepthwiseConv2D", y, 0, 3, 2);
  y = net.activate(net.call("BatchNormalization", {y}), "silu");
  Tensor gate = net.call("GlobalAveragePooling2D", {y}, {{"keepdims", true}});
  gate = net.activate(net.convolve("Conv2D", gate, 128, 1), "sigmoid");
  y = net.call("Multiply", {y, gate});
  y = net.call("BatchNormalization", {net.convolve("Conv2D", y, 64, 1)});
  Tensor z = net.convolve("Conv2D", net.call("MaxPooling2D", {x}), 64, 3);
  z = net.call("ReLU", {net.call("Add", {net.call("BatchNormalization", {z}), y})});
  z = net.call("Concatenate", {z, y});
  z = net.call("AveragePooling2D", {net.convolve("DepthwiseConv2D", z, 0, 5)});
  z = net.call("ReLU", {net.call("BatchNormalization", {net.convolve("Conv2D", z, 128, 3)})});
  z = net.call("Flatten", {net.call("MaxPooling2D", {z})});
  z = net.call("Dropout", {net.call("Dense", {z}, {{"units", 256}, {"activation", "relu"}})},
               {{"rate", 0.25}});
  return net.finish(net.call("Dense", {z}, {{"units", 10}, {"activation", "softmax"}}));
}

// Tables of words, recurrence, attention and the layers of transformers.
layers::Model sequence_probe() {
  Probe net("rates_of_sequences");
  Config::Array shape(1);
  shape.emplace_back(64);
  Tensor x = net.call("Embedding", {net.input(shape, "int32")},
                      {{"input_dim", 2000}, {"output_dim", 128}});
  const Tensor attended =
      net.call("MultiHeadAttention", {x, x}, {{"num_heads", 4}, {"key_dim", 32}});
  x = net.call("LayerNormalization", {net.call("Add", {x, attended})});
  Tensor y = net.call("Dense", {x}, {{"units", 512}, {"activation", "gelu"}});
  x = net.call("LayerNormalization",
               {net.call("Add", {x, net.call("Dense", {y}, {{"units", 128}})})});
  x = net.call("LSTM", {x}, {{"units", 128}, {"return_sequences", true}});
  x = net.call("GRU", {x}, {{"units", 64}});
  return net.finish(net.call("Dense", {x}, {{"units", 10}, {"activation", "softmax"}}));
}

layers::CompileOptions compiled(layers::Precision precision) {
  layers::CompileOptions compile;
  compile.optimizer = layers::parse_optimizer("adam");
  compile.losses = {layers::parse_loss("sparse_categorical_crossentropy")};
  compile.precision = precision;
  return compile;
}

// Kernels of a probe; false: there is no room.
bool rate(const layers::Model& model, const PlanRequest& request, layers::Precision precision,
          KernelTimes& times) {
  constexpr int64_t kBatch = 16;
  layers::BatchSizes batches;
  batches.train = kBatch;
  const Lowered lowered = lower(model, compiled(precision), batches, request, 0);
  if (!lowered.backend->computes()) return false;
  const ProcessOverhead overhead =
      process_overhead(lowered.built.set, *lowered.backend, held_beside(request));
  if (arena_within(overhead, request.limit.value_or(guard_without_limit())) < kRoom) return false;
  exec::rate_kernels(lowered.built.set, *lowered.backend, kRoom, kSeconds, times);
  return true;
}

void rate_disk(const std::string& folder, KernelTimes& times) {
  if (folder.empty() || free_space(folder) < kDiskSample * 4) return;
  backend::DiskSpeed speed = exec::measure_disk(folder, kDiskSample);
  speed.read = backend::rounded_rate(speed.read);
  speed.write = backend::rounded_rate(speed.write);
  std::erase_if(times.disks, [&](const backend::DiskSpeed& disk) { return disk.folder == folder; });
  times.disks.insert(times.disks.begin(), std::move(speed));
}

}  // namespace

bool lacks_rates(const TimesOptions& times, const std::string& backend, int threads) {
  if (times.folder.empty()) return false;
  const std::string fingerprint = times_fingerprint_of(backend, threads);
  if (!has_times(times.folder, fingerprint)) return true;
  const auto known = load_times(times.folder, fingerprint);
  return known && known->rated.empty();
}

bool measure_rates(const RatesRequest& request) {
  PlanRequest plan;
  plan.backend = request.backend;
  plan.threads = request.threads;
  plan.limit = request.limit;
  const std::string fingerprint = times_fingerprint_of(request.backend, request.threads);
  const auto known = load_times(request.times.folder, fingerprint);
  KernelTimes times = known ? *known : KernelTimes{};
  times.rates = {};
  for (const auto precision : {layers::Precision::kFloat32, layers::Precision::kBFloat16}) {
    if (!rate(image_probe(), plan, precision, times)) return false;
    if (!rate(sequence_probe(), plan, precision, times)) return false;
  }
  times.rated = date_of_today();
  if (times.date.empty()) times.date = times.rated;
  if (times.copied == 0) times.copied = backend::rounded_rate(exec::measure_copying(kRoom));
  rate_disk(request.spill_folder, times);
  std::filesystem::create_directories(request.times.folder);
  write_text_file(times_path(request.times.folder, fingerprint), print_times(times, fingerprint));
  return true;
}

}  // namespace plimsoll::planning
