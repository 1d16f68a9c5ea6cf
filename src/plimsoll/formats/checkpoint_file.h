#pragma once

// Checkpoint files: every state variable as an .npy member and a description, in one zip archive.
//
//   checkpoint.json    version, the names of the tensors in order, and the caller's description
//   plan.txt           the plan that the run followed
//   state/0.npy …      the tensors
//
// A file appears whole or not at all, and every member carries a checksum, so that a file that was
// damaged later is told from a good one before anything of it is used. What a description means is
// its writer's business (train/checkpoint.h).

#include <memory>
#include <string>
#include <string_view>

#include "base/tensor_io.h"
#include "layers/config/config.h"

namespace plimsoll::formats {

// Written to a temporary name, synced and renamed. `description` is an object. Throws kIo.
void save_checkpoint(const std::string& path, const layers::Config& description,
                     std::string_view plan, TensorSource& state);

struct CheckpointFile {
  layers::Config description;
  std::string plan;
  std::unique_ptr<TensorSource> tensors;
};

// Reads every byte once and compares checksums. A damaged file, or none of these, is kData; a file
// that cannot be read is kIo.
CheckpointFile load_checkpoint(const std::string& path);

}  // namespace plimsoll::formats
