#pragma once

// Primitives by key: made once for block and tail, shared by nodes of one shape, bounded.
//
// Describing a primitive takes up to milliseconds, and the planner asks for scratch often, so the
// answer is kept. The least recently used entry goes when there are too many; kernels hold theirs.

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "backend/onednn/vendor.h"

namespace plimsoll::backend::onednn {

class PrimitiveCache {
 public:
  // So many entries keep their descriptions, the latest that were made. One takes some 40 KiB: a
  // thousand would weigh more than the search for a plan. The others are described again when they
  // are compiled.
  static constexpr size_t kDescribed = 16;

  // The entry of that key; made by `make` where there is none.
  std::shared_ptr<Compiled> get(const std::string& key,
                                const std::function<std::shared_ptr<Compiled>()>& make);
  // Entries that have code.
  size_t compiled_count() const;

 private:
  static constexpr size_t kCapacity = 1024;
  using Entry = std::pair<std::string, std::shared_ptr<Compiled>>;
  std::list<Entry> entries_;  // most recently used first
  std::map<std::string_view, std::list<Entry>::iterator> index_;
  std::deque<std::shared_ptr<Compiled>> described_;  // the oldest first
};

}  // namespace plimsoll::backend::onednn
