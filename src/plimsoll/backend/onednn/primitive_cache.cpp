#include "backend/onednn/primitive_cache.h"

#include <algorithm>
#include <iterator>

namespace plimsoll::backend::onednn {

std::shared_ptr<Compiled> PrimitiveCache::get(
    const std::string& key, const std::function<std::shared_ptr<Compiled>()>& make) {
  if (const auto found = index_.find(key); found != index_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    forget_oldest_description();
    return entries_.front().second;
  }
  entries_.emplace_front(key, make());
  index_.emplace(entries_.front().first, entries_.begin());
  if (entries_.size() > kCapacity) {
    index_.erase(entries_.back().first);
    entries_.pop_back();
  }
  forget_oldest_description();
  return entries_.front().second;
}

// Each call of get() moves at most one entry past the described ones.
void PrimitiveCache::forget_oldest_description() {
  if (entries_.size() <= kDescribed) return;
  std::next(entries_.begin(), kDescribed)->second->forget_description();
}

size_t PrimitiveCache::compiled_count() const {
  return static_cast<size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [](const Entry& entry) { return bool{entry.second->primitive}; }));
}

}  // namespace plimsoll::backend::onednn
