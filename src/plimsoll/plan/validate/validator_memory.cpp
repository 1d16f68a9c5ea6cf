#include <algorithm>

#include "base/format.h"
#include "plan/validate/validator_impl.h"

// Places: alignment, the region, and the O(n²) question whether two things that live at the same
// time share bytes.

namespace plimsoll::plan::referee {
namespace {

// Something that occupies bytes for a while; times and bytes are half-open.
struct Occupant {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  InstanceId group = {};       // occupants of one group share memory by in_place; invalid: alone
  const Site* site = nullptr;  // scratch of this call
  InstanceId instance = {};
};

std::string name_of(const Subject& subject, const Occupant& occupant) {
  const std::string what = occupant.site != nullptr ? at(subject, *occupant.site) + "scratch"
                                                    : name_of(subject, occupant.instance);
  return fmt::format("{}, {} bytes at {}", what, occupant.bytes, occupant.offset);
}

// Extends the occupant's life by a use at `site`: all of the outermost loop below its scope.
void extend(const Subject& subject, const Sites& sites, const Site& site, Occupant& occupant) {
  const LoopId scope = subject.program.instances[occupant.instance.index()].scope;
  size_t depth = 0;
  if (scope.valid()) {
    depth = static_cast<size_t>(std::find(site.around.begin(), site.around.end(), scope) -
                                site.around.begin()) +
            1;
  }
  int64_t begin = site.number;
  int64_t end = site.number + 1;
  if (depth < site.around.size()) {
    const Body& loop = sites.bodies[site.around[depth].index()];
    begin = loop.begin;
    end = loop.end + 1;
  }
  if (occupant.begin == occupant.end) {
    occupant.begin = begin;
    occupant.end = end;
  } else {
    occupant.begin = std::min(occupant.begin, begin);
    occupant.end = std::max(occupant.end, end);
  }
}

// Life of every instance, in the order of instances.
std::vector<Occupant> find_lives(const Subject& subject, const Sites& sites) {
  std::vector<Occupant> lives(subject.program.instances.size());
  for (size_t i = 0; i < lives.size(); ++i) {
    const Instance& instance = subject.program.instances[i];
    lives[i].offset = instance.offset.count();
    lives[i].bytes = instance.bytes.count();
    lives[i].instance = InstanceId(i);
    lives[i].group = sites.group[i];
  }
  const auto use = [&](const Site& site, const SiteOperand& operand) {
    if (operand.instance.valid()) extend(subject, sites, site, lives[operand.instance.index()]);
  };
  for (const Site& site : sites.sites) {
    for (const SiteOperand& operand : site.reads) use(site, operand);
    for (const SiteOperand& operand : site.writes) use(site, operand);
  }
  for (const Sites::Transfer& transfer : sites.transfers) {
    const Site& wait = sites.sites[transfer.wait];
    use(wait, sites.sites[transfer.begin].reads[0]);
    use(wait, sites.sites[transfer.begin].writes[0]);
  }
  return lives;
}

Validation check_region(const Subject& subject, const Occupant& occupant, Bytes region,
                        std::string_view what) {
  if (occupant.offset % kAlignment.count() != 0) {
    return {Verdict::kMisaligned,
            fmt::format("{}{}: expected an offset that is a multiple of {}", at(subject),
                        name_of(subject, occupant), kAlignment.count())};
  }
  // Written so that no sum can overflow.
  if (occupant.offset >= 0 && occupant.bytes >= 0 && occupant.bytes <= region.count() &&
      occupant.offset <= region.count() - occupant.bytes) {
    return ok();
  }
  return {Verdict::kPeak, fmt::format("{}{}: expected it inside of the {} of {} bytes", at(subject),
                                      name_of(subject, occupant), what, region.count())};
}

Validation check_overlaps(const Subject& subject, const std::vector<Occupant>& occupants) {
  for (size_t i = 0; i < occupants.size(); ++i) {
    const Occupant& a = occupants[i];
    for (size_t j = i + 1; j < occupants.size(); ++j) {
      const Occupant& b = occupants[j];
      if (a.begin >= b.end || b.begin >= a.end) continue;
      if (a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes) continue;
      if (a.group.valid() && a.group == b.group) continue;
      return {Verdict::kOverlap, at(subject) + name_of(subject, a) + " and " + name_of(subject, b) +
                                     " live at the same time"};
    }
  }
  return ok();
}

}  // namespace

Validation check_memory(const Subject& subject, const Sites& sites) {
  std::vector<Occupant> arena;
  std::vector<Occupant> spill;
  for (const Occupant& life : find_lives(subject, sites)) {
    const Space space = subject.program.instances[life.instance.index()].space;
    if (space == Space::kArena) arena.push_back(life);
    const bool state = find_state_in_file(subject, life.instance) >= 0;
    if (space == Space::kSpill && !state) spill.push_back(life);
  }
  // State variables in the file live for ever; that they do not overlap each other is known.
  for (const StatePlacement& place : subject.plan.states) {
    if (place.space != Space::kSpill) continue;
    for (const Occupant& life : spill) {
      if (life.offset >= (place.offset + place.bytes).count() ||
          place.offset.count() >= life.offset + life.bytes) {
        continue;
      }
      return {Verdict::kOverlap,
              at(subject) + name_of(subject, life) + " lies in state variable " + place.name};
    }
  }
  for (const Site& site : sites.sites) {
    const Call* call = site.call();
    if (call == nullptr || call->scratch_bytes == Bytes(0)) continue;
    arena.push_back({.begin = site.number,
                     .end = site.number + 1,
                     .offset = call->scratch_offset.count(),
                     .bytes = call->scratch_bytes.count(),
                     .site = &site});
  }
  for (const Occupant& occupant : arena) {
    if (Validation v = check_region(subject, occupant, subject.program.arena_bytes, "region");
        !v.ok()) {
      return v;
    }
  }
  for (const Occupant& occupant : spill) {
    if (Validation v = check_region(subject, occupant, subject.plan.spill_bytes, "spill file");
        !v.ok()) {
      return v;
    }
  }
  if (Validation v = check_overlaps(subject, arena); !v.ok()) return v;
  return check_overlaps(subject, spill);
}

}  // namespace plimsoll::plan::referee
