// Data in chunks on disk, gradients over four batches, and a run that may be killed at any time.
//
//   chunks FOLDER [UPDATES]
//
// FOLDER/x and FOLDER/y get .npy chunks of 1024 samples the first time. Every chunk is read as its
// rows are needed, converted on the way, and never held: the process stays below 64 MiB however
// many there are. A checkpoint is written every ten updates; started again, the program goes on
// from the last one, and ends with the same bits as if it had never been stopped.
//
// The network: 32×32×3 · Conv2D 32 · pool · Conv2D 64 · pool · Dense 10, mean squared error.

#include <plimsoll/plimsoll.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace pl = plimsoll;
using namespace pl::literals;

namespace {

constexpr int64_t kChunks = 3;
constexpr int64_t kChunkRows = 1024;
constexpr int64_t kBatch = 32;
constexpr int64_t kBatchesOfAnUpdate = 4;

struct Random {
  uint64_t state;
  float next() {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(state >> 40) / 16777216.0F;
  }
};

// An .npy file of float32, version 1.0, whole or not there.
void write_chunk(const std::string& path, const std::string& row_shape, int64_t row_elements,
                 uint64_t seed) {
  if (std::filesystem::exists(path)) return;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(kChunkRows) + ", " + row_shape + "), }";
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  const std::string whole = path + ".part";
  std::ofstream file(whole, std::ios::binary);
  const char length[] = {static_cast<char>(header.size() & 0xFF),
                         static_cast<char>(header.size() >> 8)};
  file.write("\x93NUMPY\x01\x00", 8).write(length, 2) << header;
  Random random{seed};
  std::vector<float> row(static_cast<size_t>(row_elements));
  for (int64_t i = 0; i < kChunkRows; ++i) {
    std::generate(row.begin(), row.end(), [&] { return random.next(); });
    file.write(reinterpret_cast<const char*>(row.data()),
               static_cast<std::streamsize>(row.size() * sizeof(float)));
  }
  if (!file.flush()) throw pl::Error(pl::ErrorKind::kIo, whole + ": cannot be written");
  file.close();
  std::filesystem::rename(whole, path);
}

void write_chunks(const std::string& folder) {
  for (const char* part : {"x", "y"}) std::filesystem::create_directories(folder + "/" + part);
  for (int64_t i = 0; i < kChunks; ++i) {
    const std::string name = "/part-" + std::to_string(i) + ".npy";
    const auto seed = static_cast<uint64_t>(i);
    write_chunk(folder + "/x" + name, "32, 32, 3", 32 * 32 * 3, 10 + seed);
    write_chunk(folder + "/y" + name, "10", 10, 20 + seed);
  }
}

// FNV-1a over the bytes of all weights.
uint64_t fingerprint(pl::Model& model) {
  uint64_t hash = 14695981039346656037U;
  for (const std::string& name : model.weight_names()) {
    for (const float value : model.weight(name)) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
      for (size_t i = 0; i < sizeof value; ++i) hash = (hash ^ bytes[i]) * 1099511628211U;
    }
  }
  return hash;
}

void run(const std::string& folder, int64_t updates) {
  write_chunks(folder);
  const pl::Dataset data = pl::Dataset::from_npy(folder + "/x", folder + "/y");
  pl::Sequential model({pl::Input({32, 32, 3}), pl::Conv2D(32, {3, 3}, pl::relu),
                        pl::MaxPooling2D({2, 2}), pl::Conv2D(64, {3, 3}, pl::relu),
                        pl::MaxPooling2D({2, 2}), pl::Flatten(), pl::Dense(10)});
  model.compile(pl::Adam(), pl::MeanSquaredError());
  pl::Trainer trainer(model, {.batch = kBatch, .memory = 64_MiB, .on_notice = [](const auto& text) {
                                std::fprintf(stderr, "%s\n", text.c_str());
                              }});
  const std::string checkpoints = folder + "/checkpoints";
  const int64_t batches = data.row_count() / kBatch;
  double loss = 0;
  for (int64_t done = trainer.resume(checkpoints); done < updates; ++done) {
    for (int64_t k = 0; k < kBatchesOfAnUpdate; ++k) {
      const int64_t batch = (done * kBatchesOfAnUpdate + k) % batches;
      loss = trainer.accumulate(data, batch * kBatch, kBatch);
    }
    trainer.apply();
    if (trainer.updates() % 10 == 0) trainer.save_checkpoint(checkpoints);
  }
  std::printf("%lld updates, loss %.5f, %s of %s, weights %016llx\n",
              static_cast<long long>(trainer.updates()), loss,
              to_string(trainer.memory().measured_process).c_str(),
              to_string(trainer.memory().predicted_process).c_str(),
              static_cast<unsigned long long>(fingerprint(model)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: chunks FOLDER [UPDATES]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::max(1, std::stoi(argv[2])) : 48);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
