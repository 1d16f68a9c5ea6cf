#include "backend/onednn/primitive_cache.h"

#include <algorithm>

namespace plimsoll::backend::onednn {

std::shared_ptr<Compiled> PrimitiveCache::get(
    const std::string& key, const std::function<std::shared_ptr<Compiled>()>& make) {
  if (const auto found = index_.find(key); found != index_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().second;
  }
  entries_.emplace_front(key, make());
  index_.emplace(entries_.front().first, entries_.begin());
  if (entries_.size() > kCapacity) {
    index_.erase(entries_.back().first);
    entries_.pop_back();
  }
  described_.push_back(entries_.front().second);
  if (described_.size() > kDescribed) {
    described_.front()->forget_description();
    described_.pop_front();
  }
  return entries_.front().second;
}

size_t PrimitiveCache::compiled_count() const {
  return static_cast<size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [](const Entry& entry) { return bool{entry.second->primitive}; }));
}

}  // namespace plimsoll::backend::onednn
