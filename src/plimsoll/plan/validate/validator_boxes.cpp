#include "plan/validate/validator_boxes.h"

#include <algorithm>
#include <limits>

namespace plimsoll::plan::referee {
namespace {

bool meets(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.size(); ++d) {
    if (a[d].begin >= b[d].end || b[d].begin >= a[d].end) return false;
  }
  return true;
}

bool contains(const Box& outer, const Box& inner) {
  for (size_t d = 0; d < outer.size(); ++d) {
    if (inner[d].begin < outer[d].begin || inner[d].end > outer[d].end) return false;
  }
  return true;
}

// Appends what is left of `box` outside of `hole`; the two meet.
void subtract(Box box, const Box& hole, std::vector<Box>& rest) {
  for (size_t d = 0; d < box.size(); ++d) {
    if (box[d].begin < hole[d].begin) {
      rest.push_back(box);
      rest.back()[d].end = hole[d].begin;
      box[d].begin = hole[d].begin;
    }
    if (box[d].end > hole[d].end) {
      rest.push_back(box);
      rest.back()[d].begin = hole[d].end;
      box[d].end = hole[d].end;
    }
  }
}

// The dimension in which two boxes touch and are alike otherwise, or −1.
int seam(const Box& a, const Box& b) {
  int found = -1;
  for (size_t d = 0; d < a.size(); ++d) {
    if (a[d] == b[d]) continue;
    if (found >= 0 || (a[d].end != b[d].begin && b[d].end != a[d].begin)) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

}  // namespace

bool is_empty(const Box& box) {
  return std::any_of(box.begin(), box.end(), [](const Range& r) { return r.begin >= r.end; });
}

void HeldRows::add_merged(Piece piece) {
  for (size_t i = 0; i < pieces_.size();) {
    const int d = pieces_[i].progress == piece.progress ? seam(pieces_[i].box, piece.box) : -1;
    if (d < 0) {
      ++i;
      continue;
    }
    Range& range = piece.box[static_cast<size_t>(d)];
    const Range& other = pieces_[i].box[static_cast<size_t>(d)];
    range = {std::min(range.begin, other.begin), std::max(range.end, other.end)};
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(i));
    i = 0;
  }
  pieces_.push_back(std::move(piece));
}

void HeldRows::set(const Box& box, int64_t progress) {
  if (is_empty(box)) return;
  erase(box);
  add_merged({box, progress});
}

void HeldRows::erase(const Box& box) {
  if (is_empty(box)) return;
  std::vector<Piece> kept;
  std::vector<Box> rest;
  bool changed = false;
  for (const Piece& piece : pieces_) {
    if (!meets(piece.box, box)) {
      if (changed) kept.push_back(piece);
      continue;
    }
    if (!changed) {
      kept.assign(pieces_.begin(), pieces_.begin() + (&piece - pieces_.data()));
      changed = true;
    }
    rest.clear();
    subtract(piece.box, box, rest);
    for (Box& part : rest) kept.push_back({std::move(part), piece.progress});
  }
  if (changed) pieces_ = std::move(kept);
}

Progress HeldRows::over(const Box& box) const {
  Progress result{std::numeric_limits<int64_t>::max(), -1};
  if (is_empty(box)) return {result.least, result.least};
  std::vector<Box> open{box};
  std::vector<Box> next;
  for (const Piece& piece : pieces_) {
    next.clear();
    for (Box& part : open) {
      if (!meets(part, piece.box)) {
        next.push_back(std::move(part));
        continue;
      }
      result.least = std::min(result.least, piece.progress);
      result.most = std::max(result.most, piece.progress);
      if (!contains(piece.box, part)) subtract(std::move(part), piece.box, next);
    }
    open.swap(next);
    if (open.empty()) return result;
  }
  return {-1, result.most};
}

bool HeldRows::intersects(const Box& box) const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [&](const Piece& piece) { return meets(piece.box, box); });
}

}  // namespace plimsoll::plan::referee
