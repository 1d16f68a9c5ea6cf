#pragma once

// The state of the best epoch so far, on disk: it takes no memory.
//
// With a path (beside a run's checkpoints) it is a checkpoint file that outlives the process and is
// there again for --resume. Without one it is an unlinked file that goes with the process.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/tensor_io.h"

namespace plimsoll::train {

class BestWeights {
 public:
  // `path` "": an unlinked file in `spill_directory` (see base/spill_folder.h), made when needed.
  // `writes` false: another rank writes the file at `path`, and what is saved here is an unlinked
  // one's.
  BestWeights(std::string path, std::string spill_directory, bool writes);

  bool writes_path() const { return writes_ && !path_.empty(); }
  void save(TensorSource& state, int64_t epoch);
  // What was saved for `epoch`; null where there is nothing sound of that epoch. Throws kIo.
  std::unique_ptr<TensorSource> load(int64_t epoch) const;

 private:
  void save_unlinked(TensorSource& state);

  std::string path_;
  std::string spill_directory_;
  bool writes_;
  std::shared_ptr<File> file_;
  std::vector<TensorInfo> infos_;  // of what is in file_, one after another
  int64_t epoch_ = 0;
};

}  // namespace plimsoll::train
