#include "plan/search/candidates.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"

namespace plimsoll::plan {
namespace {

// Candidates that are placed; their loads differ by at least kRung.
constexpr size_t kMostPlaced = 32;
constexpr double kRung = 1.01;

// The smallest, and each that is larger than the one before by the ratio.
std::vector<Rung> pick_rungs(std::span<const Rung> frontier, double ratio) {
  std::vector<Rung> rungs;
  for (const Rung& rung : frontier) {
    const bool near = !rungs.empty() && static_cast<double>(rung.load.count()) <
                                            ratio * static_cast<double>(rungs.back().load.count());
    if (!near) rungs.push_back(rung);
  }
  return rungs;
}

// The one of the smallest arena alone; none where its file has more bytes than it may have.
std::optional<Candidate> place_smallest(std::vector<Rung> rungs, Bytes clone_bytes, Bytes spill,
                                        const std::function<Candidate(const Rung&)>& place) {
  const auto least = [&](const Rung& rung) { return rung.load + clone_bytes * rung.clones; };
  std::ranges::stable_sort(rungs, {}, least);
  std::optional<Candidate> best;
  for (const Rung& rung : rungs) {
    if (best && least(rung) >= best->arena_bytes) break;
    Candidate candidate = place(rung);
    if (!best || candidate.arena_bytes < best->arena_bytes) best = std::move(candidate);
  }
  if (best && best->spill > spill) return std::nullopt;
  return best;
}

}  // namespace

std::vector<Candidate> keep_frontier(std::vector<Candidate> placed, Bytes most) {
  std::ranges::stable_sort(placed, [](const Candidate& a, const Candidate& b) {
    return a.arena_bytes != b.arena_bytes ? a.arena_bytes < b.arena_bytes : a.seconds < b.seconds;
  });
  std::vector<Candidate> frontier;
  for (Candidate& candidate : placed) {
    if (candidate.arena_bytes > most) break;
    if (!frontier.empty() && candidate.seconds >= kFaster * frontier.back().seconds) continue;
    frontier.push_back(std::move(candidate));
  }
  PLIMSOLL_CHECK(!frontier.empty(), "the search finds a plan of every program");
  return frontier;
}

std::vector<Candidate> place_rungs(std::span<const Rung> rungs, bool small, Bytes clone_bytes,
                                   const Wanted& wanted,
                                   const std::function<Candidate(const Rung&)>& place) {
  const Rung& free = rungs.back();
  const std::span<const Rung> smaller = rungs.first(rungs.size() - 1);
  std::vector<Rung> picked = pick_rungs(smaller, small ? 1.0 : kRung);
  if (!small && picked.size() > kMostPlaced) {
    const double ends = static_cast<double>(free.load.count()) /
                        std::max(1.0, static_cast<double>(picked.front().load.count()));
    picked = pick_rungs(smaller, std::pow(ends, 1.0 / static_cast<double>(kMostPlaced)));
  }
  if (wanted.smallest_alone) {
    std::vector<Rung> all = picked;
    all.push_back(free);
    std::optional<Candidate> smallest =
        place_smallest(std::move(all), clone_bytes, wanted.spill, place);
    if (smallest) return {std::move(*smallest)};
  }
  std::vector<Candidate> placed = {place(free)};
  const Bytes free_bytes = placed.front().arena_bytes;
  for (const Rung& rung : picked) {
    if (rung.load < free_bytes) placed.push_back(place(rung));
  }
  return keep_frontier(std::move(placed), free_bytes);
}

}  // namespace plimsoll::plan
