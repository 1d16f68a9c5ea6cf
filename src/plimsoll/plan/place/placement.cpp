#include "plan/place/placement.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>

#include "base/hash.h"
#include "plan/core/walk.h"
#include "plan/place/pack.h"
#include "plan/place/shelf.h"
#include "plan/place/skyline.h"

namespace plimsoll::plan {
namespace {

// Comparisons of two buffers that improving a placement may cost in all.
constexpr int64_t kImprovementWork = 5'000'000;

// Looks at a rectangle that the exact search may take in all, and for how many rectangles it is
// asked.
constexpr int64_t kExactWork = 4'000'000;
constexpr size_t kMostExact = 2000;
// Capacities that it is asked for, from the load up to what is placed already.
constexpr int64_t kCapacities = 4;
// It is not asked for less than this share of the load.
constexpr int64_t kSmallExcess = 512;

std::vector<Rectangle> make_rectangles(std::span<const Buffer> buffers, Bytes gap) {
  std::vector<Rectangle> rectangles;
  rectangles.reserve(buffers.size());
  for (const Buffer& buffer : buffers) {
    rectangles.push_back(
        {buffer.live.begin, buffer.live.end, round_up(buffer.bytes + gap, kAlignment).count()});
  }
  return rectangles;
}

using Order = std::vector<uint32_t>;

struct Trial {
  std::vector<int64_t> offsets;
  int64_t region = 0;
  int64_t work = 0;
  uint32_t top = 0;  // the buffer that ends highest; of several the first in the order
};

// Puts each buffer of the order into the lowest gap that holds it. `shelf` is for reuse.
Trial place_in_order(const std::vector<Rectangle>& rectangles, const Order& order, Shelf& shelf) {
  shelf.clear();
  Trial trial;
  trial.offsets.resize(rectangles.size());
  for (uint32_t index : order) {
    const Rectangle& rectangle = rectangles[index];
    const int64_t offset = shelf.put(rectangle);
    trial.work += shelf.looks();
    trial.offsets[index] = offset;
    if (offset + rectangle.bytes > trial.region) {
      trial.region = offset + rectangle.bytes;
      trial.top = index;
    }
  }
  return trial;
}

template <typename Key>
Order order_by(const std::vector<Rectangle>& rectangles, Key key) {
  Order order(rectangles.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {},
                    [&](uint32_t i) { return std::tuple_cat(key(rectangles[i]), std::tuple(i)); });
  return order;
}

// The placers' orders, best first on the average network.
Order make_order(const std::vector<Rectangle>& rectangles, size_t placer) {
  const auto length = [](const Rectangle& p) { return p.end - p.begin; };
  switch (placer) {
    case 0:
      return order_by(rectangles,
                      [&](const Rectangle& p) { return std::tuple(-p.bytes, -length(p)); });
    case 1:
      return order_by(rectangles,
                      [&](const Rectangle& p) { return std::tuple(-length(p), -p.bytes); });
    case 2:
      return order_by(rectangles, [&](const Rectangle& p) {
        return std::tuple(-static_cast<double>(length(p)) * static_cast<double>(p.bytes));
      });
    default:
      return order_by(rectangles,
                      [&](const Rectangle& p) { return std::tuple(p.begin, -p.bytes); });
  }
}
constexpr size_t kPlacers = 4;

// What lies low first: placed anew in this order nothing comes to lie higher.
Order order_by_offset(const std::vector<int64_t>& offsets) {
  Order order(offsets.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return offsets[i]; });
  return order;
}

// Local search over orders: what stands out at the top, or any other buffer, goes to an earlier
// place; an order that is not worse is kept. The sequence of moves is fixed.
void improve(const std::vector<Rectangle>& rectangles, int64_t load, Order order, Shelf& shelf,
             Trial& best) {
  uint64_t state = 0;
  const auto draw = [&state](size_t below) { return mix_bits(++state) % below; };
  int64_t work = 0;
  while (best.region > load && work < kImprovementWork) {
    const uint64_t kind = draw(4);
    const uint32_t moved = kind == 0 ? order[draw(order.size())] : best.top;
    const auto from = std::ranges::find(order, moved);
    if (from == order.begin()) {
      work += 1 + std::ssize(order);
      std::swap(order[draw(order.size())], order[draw(order.size())]);
      continue;
    }
    const auto to =
        order.begin() + static_cast<int64_t>(draw(static_cast<size_t>(from - order.begin())));
    std::rotate(to, from, from + 1);
    Trial trial = place_in_order(rectangles, order, shelf);
    work += trial.work;
    if (trial.region <= best.region) {
      best = std::move(trial);
    } else {
      std::rotate(to, to + 1, from + 1);
    }
  }
}

int64_t region_of(const std::vector<Rectangle>& rectangles, const std::vector<int64_t>& offsets) {
  int64_t region = 0;
  for (size_t i = 0; i < rectangles.size(); ++i)
    region = std::max(region, offsets[i] + rectangles[i].bytes);
  return region;
}

// The smallest of a few capacities at which the exact search finds a placement.
void search_exactly(const std::vector<Rectangle>& rectangles, int64_t load, Trial& best) {
  if (rectangles.size() > kMostExact) return;
  const int64_t excess = best.region - load;
  for (int64_t step = 0; step < kCapacities; ++step) {
    const int64_t room = step * excess / kCapacities;
    const int64_t capacity = load + room - room % kAlignment.count();
    const PackResult packed = pack_within(rectangles, capacity, kExactWork / kCapacities);
    if (packed.verdict != PackVerdict::kPacked) continue;
    best.offsets = packed.offsets;
    best.region = region_of(rectangles, packed.offsets);
    return;
  }
}

PlacementResult finish(const Trial& trial, int64_t load) {
  PlacementResult result;
  for (int64_t offset : trial.offsets) result.offsets.push_back(Bytes(offset));
  result.region = Bytes(trial.region);
  result.load = Bytes(load);
  return result;
}

int64_t load_of(std::span<const Buffer> buffers, const std::vector<Rectangle>& rectangles) {
  std::vector<Buffer> rounded(buffers.size());
  Interval all;
  for (size_t i = 0; i < buffers.size(); ++i) {
    rounded[i].live = buffers[i].live;
    rounded[i].bytes = Bytes(rectangles[i].bytes);
    all.end = std::max(all.end, buffers[i].live.end);
  }
  return find_load(rounded, all).count();
}

}  // namespace

PlacementResult place_buffers(std::span<const Buffer> buffers, Bytes gap, bool several) {
  const std::vector<Rectangle> rectangles = make_rectangles(buffers, gap);
  const int64_t load = load_of(buffers, rectangles);
  Order best_order = make_order(rectangles, 0);
  Shelf shelf;
  Trial best = place_in_order(rectangles, best_order, shelf);
  const auto offer = [&](Order order) {
    Trial trial = place_in_order(rectangles, order, shelf);
    if (trial.region >= best.region) return;
    best = std::move(trial);
    best_order = std::move(order);
  };
  if (!several) return finish(best, load);
  for (size_t placer = 1; placer < kPlacers && best.region > load; ++placer) {
    offer(make_order(rectangles, placer));
  }
  for (SkylineRule rule : {SkylineRule::kLongest, SkylineRule::kMostArea, SkylineRule::kLargest}) {
    if (best.region > load) offer(order_by_offset(place_on_skyline(rectangles, rule)));
  }
  if (best.region > load) improve(rectangles, load, std::move(best_order), shelf, best);
  if (best.region > load + load / kSmallExcess) search_exactly(rectangles, load, best);
  return finish(best, load);
}

PlacementResult place_apart(std::span<const Buffer> buffers, Bytes gap) {
  const std::vector<Rectangle> rectangles = make_rectangles(buffers, gap);
  Trial trial;
  for (const Rectangle& rectangle : rectangles) {
    trial.offsets.push_back(trial.region);
    trial.region += rectangle.bytes;
  }
  return finish(trial, load_of(buffers, rectangles));
}

void apply_placement(const PlacementResult& placement, std::span<const Buffer> buffers,
                     ProgramPlan& program) {
  std::map<int64_t, Bytes> scratch;
  for (size_t b = 0; b < buffers.size(); ++b) {
    for (InstanceId id : buffers[b].instances) {
      program.instances[id.index()].offset = placement.offsets[b];
    }
    if (buffers[b].instances.empty()) scratch[buffers[b].scratch_of] = placement.offsets[b];
  }
  walk_items(program, [&](Item& item, int64_t number, LoopId) {
    auto* call = std::get_if<Call>(&item);
    if (call == nullptr) return;
    const auto found = scratch.find(number);
    call->scratch_offset = found == scratch.end() ? Bytes() : found->second;
  });
}

}  // namespace plimsoll::plan
