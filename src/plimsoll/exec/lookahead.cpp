#include "exec/lookahead.h"

#include "base/error.h"

namespace plimsoll::exec {

void Lookahead::start() {
  cursor_.restart();
  first_ = count_ = 0;
  announce();
}

void Lookahead::announce() {
  while (!cursor_.ended() && (count_ == 0 || queue_.has_room())) {
    cursor_.take(queue_.next_region());
    announced_[(first_ + count_++) % announced_.size()] = queue_.announce();
  }
}

size_t Lookahead::next() {
  if (count_ == 0) announce();
  PLIMSOLL_CHECK(count_ > 0, "a transfer that was not looked ahead for");
  const size_t next = announced_[first_];
  first_ = (first_ + 1) % announced_.size();
  --count_;
  return next;
}

}  // namespace plimsoll::exec
