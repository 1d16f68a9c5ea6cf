#pragma once

// A model's weights and optimizer variables between runs.
//
// They lie in a nameless temporary file, not in memory: a model that does not run takes none of the
// limit of one that does. What a model file holds is left there until something changes it.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/tensor_io.h"

namespace plimsoll::run {

class StateStore {
 public:
  StateStore();
  StateStore(StateStore&&) noexcept;
  StateStore& operator=(StateStore&&) noexcept;
  ~StateStore();

  // nullptr: nothing is known yet.
  TensorSource* source() const { return source_.get(); }

  // Takes tensors where they are (a model file).
  void adopt(std::unique_ptr<TensorSource> source) { source_ = std::move(source); }
  // Copies tensors, with or without what metrics have counted. Throws kIo; then nothing has
  // changed. `folder`: for the file; empty: the first that will do (base/spill_folder.h).
  void capture(TensorSource& state, bool with_metrics = false, const std::string& folder = "");
  // Leaves out the optimizer's variables.
  void drop_optimizer();
  // Replaces the bytes of one tensor; there is one of that name and size.
  void write(const std::string& name, std::span<const std::byte> bytes);

 private:
  std::unique_ptr<TensorSource> source_;
};

// Position of a tensor by name, or -1.
int64_t find_tensor(const TensorSource& source, std::string_view name);

}  // namespace plimsoll::run
