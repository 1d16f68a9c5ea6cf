// Networks that people ask about when memory runs out, on random data, each within a limit.
//
//   seed_workloads [NAME…] [--steps N] [--memory SIZE] [--folder DIR]
//
//   S0a  256×256×3 · Conv2D 32 · pool · Conv2D 64 · pool · Dense 1        batch 128
//   S1a  28×28×3 · Conv2D 32 · pool · Dense 10                            batch 256
//   S1b  10 · Dense 100 · Dense 10                                        batch 32
//   S1c  64×64×3 · Conv2D 64 · pool · Conv2D 128 · pool · Dense 256 · 10  batch 64
//   S2   32×32×3 · Conv2D 32 · pool · Conv2D 64 · pool · Dense 10 floats  batch 32
//   S4   1000 float64 · Dense 128 · Dense 1                               batch 1024
//
// The samples go to .npy files in DIR first (default: /var/tmp), as many as the steps will read and
// never in memory as a whole; the files are removed at the end.

#include <plimsoll/plimsoll.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pl = plimsoll;

namespace {

enum class Target { kBinary, kClasses, kFloats };

struct Workload {
  std::string name;
  std::function<pl::Sequential()> build;
  std::vector<int64_t> shape;  // of a sample
  bool float64 = false;
  Target target = Target::kBinary;
  int64_t samples = 1000;
  int64_t batch = 32;
};

pl::Sequential conv_net(const std::vector<int64_t>& shape, const std::vector<int64_t>& filters,
                        const std::vector<pl::Layer>& head) {
  std::vector<pl::Layer> layers = {pl::Input(shape)};
  for (const int64_t count : filters) {
    layers.push_back(pl::Conv2D(count, {3, 3}, pl::relu));
    layers.push_back(pl::MaxPooling2D({2, 2}));
  }
  layers.push_back(pl::Flatten());
  layers.insert(layers.end(), head.begin(), head.end());
  return pl::Sequential(layers);
}

std::vector<Workload> workloads() {
  const auto s0a = [] { return conv_net({256, 256, 3}, {32, 64}, {pl::Dense(1, pl::sigmoid)}); };
  const auto s1a = [] { return conv_net({28, 28, 3}, {32}, {pl::Dense(10, pl::softmax)}); };
  const auto s1b = [] {
    return pl::Sequential({pl::Input({10}), pl::Dense(100, pl::relu), pl::Dense(10, pl::softmax)});
  };
  const auto s1c = [] {
    return conv_net({64, 64, 3}, {64, 128}, {pl::Dense(256, pl::relu), pl::Dense(10, pl::softmax)});
  };
  const auto s2 = [] { return conv_net({32, 32, 3}, {32, 64}, {pl::Dense(10)}); };
  const auto s4 = [] {
    return pl::Sequential({pl::Input({1000}), pl::Dense(128, pl::relu), pl::Dense(1, pl::sigmoid)});
  };
  return {{"S0a", s0a, {256, 256, 3}, false, Target::kBinary, 1000, 128},
          {"S1a", s1a, {28, 28, 3}, false, Target::kClasses, 1000, 256},
          {"S1b", s1b, {10}, false, Target::kClasses, 1000, 32},
          {"S1c", s1c, {64, 64, 3}, false, Target::kClasses, 1000, 64},
          {"S2", s2, {32, 32, 3}, false, Target::kFloats, 1000, 32},
          {"S4", s4, {1000}, true, Target::kBinary, 100'000, 1024}};
}

// Numbers in [0, 1), the same on every machine.
class Random {
 public:
  double next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state_ >> 11) / 9007199254740992.0;
  }

 private:
  uint64_t state_ = 11;
};

// An .npy file (version 1.0) of `rows` rows that `next_row` fills.
template <typename T>
void write_npy(const std::string& path, const std::string& type, int64_t rows,
               const std::vector<int64_t>& row_shape, const std::function<T()>& next) {
  std::string shape = std::to_string(rows) + ",";
  size_t row_elements = 1;
  for (const int64_t dim : row_shape) {
    shape += " " + std::to_string(dim) + ",";
    row_elements *= static_cast<size_t>(dim);
  }
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  const char length[] = {static_cast<char>(header.size() & 0xFF),
                         static_cast<char>(header.size() >> 8)};
  file.write("\x93NUMPY\x01\x00", 8).write(length, 2) << header;
  std::vector<T> row(row_elements);
  for (int64_t i = 0; i < rows; ++i) {
    std::generate(row.begin(), row.end(), next);
    file.write(reinterpret_cast<const char*>(row.data()),
               static_cast<std::streamsize>(row_elements * sizeof(T)));
  }
  if (!file.flush()) throw pl::Error(pl::ErrorKind::kIo, path + ": cannot be written");
}

// The files of a workload's samples while this lives.
class Samples {
 public:
  Samples(const Workload& workload, int64_t rows, const std::string& folder)
      : x_(folder + "/plimsoll-" + workload.name + "-x.npy"),
        y_(folder + "/plimsoll-" + workload.name + "-y.npy") {
    Random random;
    if (workload.float64) {
      write_npy<double>(x_, "<f8", rows, workload.shape, [&] { return random.next(); });
    } else {
      write_npy<float>(x_, "<f4", rows, workload.shape,
                       [&] { return static_cast<float>(random.next()); });
    }
    if (workload.target == Target::kFloats) {
      write_npy<float>(y_, "<f4", rows, {10}, [&] { return static_cast<float>(random.next()); });
    } else {
      const int classes = workload.target == Target::kBinary ? 2 : 10;
      write_npy<int64_t>(y_, "<i8", rows, {},
                         [&] { return static_cast<int64_t>(random.next() * classes); });
    }
  }
  Samples(const Samples&) = delete;
  Samples& operator=(const Samples&) = delete;
  ~Samples() {
    std::error_code ignored;
    std::filesystem::remove(x_, ignored);
    std::filesystem::remove(y_, ignored);
  }
  pl::Dataset dataset() const { return pl::Dataset::from_npy(x_, y_); }

 private:
  std::string x_;
  std::string y_;
};

struct Options {
  std::vector<std::string> names;
  int64_t steps = 5;
  std::optional<pl::Bytes> memory;
  std::string folder = "/var/tmp";
};

void compile(pl::Sequential& model, Target target) {
  switch (target) {
    case Target::kBinary:
      return model.compile(pl::Adam(), pl::BinaryCrossentropy(), {pl::Accuracy()});
    case Target::kClasses:
      return model.compile(pl::Adam(), pl::SparseCategoricalCrossentropy());
    case Target::kFloats:
      return model.compile(pl::Adam(), pl::MeanSquaredError());
  }
}

void run(const Workload& workload, const Options& options) {
  const int64_t rows = std::min(workload.samples, options.steps * workload.batch);
  const Samples samples(workload, rows, options.folder);
  pl::Sequential model = workload.build();
  compile(model, workload.target);
  const pl::History history =
      model.fit(samples.dataset(), {.batch = workload.batch,
                                    .epochs = (options.steps * workload.batch + rows - 1) / rows,
                                    .steps = options.steps,
                                    .memory = options.memory,
                                    .shuffle = "none"});
  const pl::MemoryUse& memory = history.memory;
  std::printf("%-4s %4lld steps  %9.2f ms a step  arena %s of %s  process %s of %s  loss %.5f\n",
              workload.name.c_str(), static_cast<long long>(history.steps),
              history.seconds_per_step * 1e3, to_string(memory.measured_arena).c_str(),
              to_string(memory.planned_arena).c_str(), to_string(memory.measured_process).c_str(),
              to_string(memory.predicted_process).c_str(),
              history.epochs.back().metrics.front().second);
  std::fflush(stdout);
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--steps" && has_value) {
      options.steps = std::max(1, std::stoi(words[++i]));
    } else if (words[i] == "--memory" && has_value) {
      options.memory = pl::parse_bytes(words[++i], pl::Bytes(0));
    } else if (words[i] == "--folder" && has_value) {
      options.folder = words[++i];
    } else {
      options.names.push_back(words[i]);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse({argv + 1, argv + argc});
    bool any = false;
    for (const Workload& workload : workloads()) {
      const auto& names = options.names;
      if (!names.empty() && std::find(names.begin(), names.end(), workload.name) == names.end()) {
        continue;
      }
      run(workload, options);
      any = true;
    }
    if (!any) std::fprintf(stderr, "expected names among S0a S1a S1b S1c S2 S4\n");
    return any ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
