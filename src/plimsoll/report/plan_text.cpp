#include "report/plan_text.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"
#include "report/table.h"
#include "report/units.h"

namespace plimsoll::report {
namespace {

// As commands; what is left is a table.
constexpr size_t kMostCommands = 3;
constexpr size_t kMostCulprits = 5;

std::string with_unit(const char* title, const Unit& unit) {
  return std::string(title) + unit.name;
}

// "24.3 MiB" that are not less.
std::string enough(Bytes bytes) {
  const Unit unit = size_unit(bytes);
  return in_unit(round_up_to_unit(bytes, unit), unit) + " " + unit.name;
}

// Subtracts the figures as they are printed, so that a reader's sum is right: "5.9 MiB".
std::string difference(Bytes more, Bytes less, const Unit& unit) {
  const auto printed = [&](Bytes bytes) {
    return std::strtod(in_unit(bytes, unit).c_str(), nullptr);
  };
  const double left = printed(more) - printed(less);
  if (left <= 0) return amount(more - less, unit);
  return in_unit(left * unit.size, unit) + " " + unit.name;
}

// "58.1 of 64.0 MiB".
std::string of_limit(Bytes bytes, Bytes limit, const Unit& unit) {
  return in_unit(bytes, unit) + " of " + in_unit(limit, unit) + " " + unit.name;
}

std::string fits_sentence(const PlanSummary& summary) {
  const Bytes peak = summary.predicted_process;
  if (summary.limit) {
    const Unit unit = size_unit(*summary.limit);
    const Bytes most = *summary.limit - summary.reserve;
    const std::string beside = summary.reserve > Bytes()
                                   ? " beside the reserve of " + amount(summary.reserve, unit)
                                   : std::string();
    return "fits: " + of_limit(peak, *summary.limit, unit) + " (" +
           (most > peak ? difference(most, peak, unit) : "nothing") + " to spare" + beside + ")";
  }
  const std::string needs = "needs " + amount(peak, size_unit(peak));
  if (summary.max_slowdown) {
    return needs + ": the smallest plan found within " + format_factor(*summary.max_slowdown) +
           " the time of the plan without a limit";
  }
  std::string text = needs + " without a limit";
  if (summary.smallest_same_bits > Bytes() && summary.smallest_same_bits < peak) {
    text += "; with one, fits from " + enough(summary.smallest_same_bits) + " on";
  }
  return text;
}

std::string step_time(const PlanSummary& summary) {
  return "about " + format_seconds(summary.seconds_per_step) + " a step (" +
         (summary.times_measured ? "kernels measured here" : "estimated") + ")";
}

std::string exchange_line(const RankExchange& exchange) {
  std::string text = fmt::format("exchange: one rank sends {} in {} messages a step",
                                 to_string(exchange.bytes), exchange.messages);
  if (exchange.seconds > 0) {
    text += fmt::format(", which takes {}, {} of it while nothing is computed",
                        format_seconds(exchange.seconds), format_seconds(exchange.waited));
  }
  if (exchange.slowest > 0) {
    text += fmt::format("; the slowest rank computes {:.0f} % longer", 100 * exchange.slowest);
  }
  if (exchange.efficiency > 0) {
    text += fmt::format("; together {:.0f} % of as many processes by themselves",
                        100 * exchange.efficiency);
  }
  return text + "\n";
}

std::string ranks_line(const PlanSummary& summary) {
  if (summary.ranks == 1) return "";
  std::string text =
      fmt::format("ranks: {} share every step, and this is one rank's; ", summary.ranks);
  if (summary.shard == 0) {
    text += "each holds all of the state (shard 0)\n";
  } else {
    text += fmt::format("each holds a part of {} of the state's variables (shard {})\n",
                        summary.sharded_states, summary.shard);
  }
  return summary.exchange ? text + exchange_line(*summary.exchange) : text;
}

std::string batch_norm_line(const PlanSummary& summary) {
  if (summary.batch_norm_asked == 0) return "";
  const std::string asked = "batch normalization: " + batch_norm_name(summary);
  if (summary.batch_norm_group > 0) {
    return fmt::format("{}, statistics of groups of {} samples, part of the model\n", asked,
                       summary.batch_norm_group);
  }
  if (summary.batch_norm_asked >= summary.batch) {
    return asked + ", the whole batch is one group: the same as full\n";
  }
  return asked + ", but no layer of this model has statistics of its batch\n";
}

std::string about_model(const PlanSummary& summary) {
  std::string text =
      fmt::format("{}: {} parameters, batch {}, {}", summary.model,
                  format_count(summary.parameter_count), summary.batch, summary.optimizer);
  if (summary.fits()) text += "; " + step_time(summary);
  text += "\n";
  if (summary.any_data) {
    return text +
           "data: none named; counted are the largest buffers of any source, and a short "
           "last batch\n";
  }
  return summary.data.empty() ? text : text + "data: " + summary.data + "\n";
}

// What is to be known of the result of a plan that fits.
std::string notes(const PlanSummary& summary) {
  std::string text;
  if (summary.precision != "f32") {
    text += "precision: " + summary.precision + " activations, float32 weights and sums\n";
  }
  if (const std::string note = precision_note(summary); !note.empty()) {
    text += "note: " + note + "\n";
  }
  text += batch_norm_line(summary);
  text += ranks_line(summary);
  if (summary.block_set > 0) {
    text += fmt::format(
        "note: only smaller blocks fit (halved {}): results equal up to rounding, not bit for bit",
        times_halved(summary.block_set));
    if (summary.smallest_same_bits > Bytes()) {
      text += "; the same bits from " + enough(summary.smallest_same_bits) + " on";
    }
    text += "\n";
  }
  if (summary.spill > Bytes()) {
    text += fmt::format("spill file: {} on disk", to_string(summary.spill));
    if (summary.smallest_same_bits > summary.predicted_process) {
      text += "; without one it would need " + enough(summary.smallest_same_bits);
    }
    text += "\n";
  }
  return text;
}

// Rows of a name and bytes each, in one unit; what would read as nothing goes into one row.
class ByteTable {
 public:
  explicit ByteTable(std::string title) : title_(std::move(title)) {}
  void add(std::string name, Bytes bytes, std::string note = "") {
    rows_.push_back({std::move(name), bytes, std::move(note)});
  }
  // Rounded up, as the sentences have it.
  void add_enough(std::string name, Bytes bytes, std::string note = "") {
    rows_.push_back({std::move(name), bytes, std::move(note), true});
  }
  bool empty() const { return rows_.empty(); }

  // Empty where there are no rows.
  std::string print(bool with_rest) const {
    if (rows_.empty()) return "";
    const Unit unit = size_unit(std::ranges::max_element(rows_, {}, &Row::bytes)->bytes);
    Table table({title_, unit.name, ""});
    Bytes rest;
    std::vector<const Row*> told;
    for (const Row& row : rows_) {
      if (in_unit(row.bytes, unit).starts_with('<')) {
        rest += row.bytes;
      } else if (row.bytes > Bytes()) {
        told.push_back(&row);
      }
    }
    for (const Row* row : told) {
      // The last is the sum.
      if (with_rest && row == told.back() && rest > Bytes() &&
          !in_unit(rest, unit).starts_with('<')) {
        table.add({"  small parts", in_unit(rest, unit), ""});
      }
      const Bytes bytes = row->enough ? round_up_to_unit(row->bytes, unit) : row->bytes;
      table.add({"  " + row->name, in_unit(bytes, unit), row->note});
    }
    return "\n" + table.print();
  }

 private:
  struct Row {
    std::string name;
    Bytes bytes;
    std::string note;
    bool enough = false;
  };
  std::string title_;
  std::vector<Row> rows_;
};

std::string parts_table(const PlanSummary& summary) {
  ByteTable table("peak memory");
  for (const MemoryPart& part : summary.parts) table.add(part.name, part.bytes);
  table.add("predicted peak", summary.predicted_process);
  return table.print(true);
}

// Says of the smallest with the same bits whether smaller ones are out of the question, or were not
// found.
std::string certainty(const PlanSummary& summary) {
  if (summary.smallest_is_proved) return "proved";
  return summary.searched_all ? "found" : "found at this effort";
}

std::string limits_table(const PlanSummary& summary) {
  if (summary.free_plan == Bytes()) return "";  // a saved plan
  ByteTable table("limits");
  const Bytes same = summary.smallest_same_bits;
  table.add_enough("the fastest plan takes", summary.free_plan);
  const std::string any_time = summary.max_slowdown ? ", in any time" : "";
  table.add_enough("smallest, same result", same, certainty(summary) + any_time);
  if (summary.smallest_feasible > Bytes() && summary.smallest_feasible < same) {
    table.add_enough("smallest, equal up to rounding", summary.smallest_feasible,
                     "smaller blocks" + any_time);
  }
  bool with_file = summary.spill > Bytes();
  if (summary.smallest_with_spill && *summary.smallest_with_spill < same) {
    table.add_enough("smallest, with a spill file", *summary.smallest_with_spill,
                     "same result" + any_time);
    with_file = true;
  }
  if (summary.lower_bound_with_spill && *summary.lower_bound_with_spill < summary.lower_bound) {
    table.add("lower bound, with a spill file", *summary.lower_bound_with_spill, "proved");
    with_file = true;
  }
  table.add(with_file ? "lower bound, without a spill file" : "lower bound", summary.lower_bound,
            "proved");
  std::string text = table.print(false);
  if (summary.largest_feasible_batch) {
    text += fmt::format("  largest batch within the limit: {}\n", *summary.largest_feasible_batch);
  }
  return text;
}

std::string points_table(const char* title, const std::vector<plan::FrontierPoint>& points) {
  if (points.empty()) return "";
  Bytes most;
  double longest = 0;
  for (const plan::FrontierPoint& point : points) {
    most = max(most, point.arena_bytes);
    longest = std::max(longest, point.seconds);
  }
  const Unit size = size_unit(most);
  const Unit time = time_unit(longest);
  Table table({with_unit(title, size), with_unit("step, ", time), "plan"});
  for (const plan::FrontierPoint& point : points) {
    table.add({in_unit(round_up_to_unit(point.arena_bytes, size), size),
               in_unit(point.seconds, time), point.what});
  }
  return "\n" + table.print();
}

std::string scaling_table(const PlanSummary& summary) {
  if (!summary.exchange || summary.exchange->scaling.empty()) return "";
  const std::vector<RankScale>& scaling = summary.exchange->scaling;
  double longest = 0;
  for (const RankScale& scale : scaling) longest = std::max(longest, scale.seconds);
  const Unit time = time_unit(longest);
  Table table({"ranks, each as this one", "batch", with_unit("step, ", time),
               with_unit("exchange, ", time), "of as many that exchange nothing"});
  for (const RankScale& scale : scaling) {
    table.add({format_count(scale.ranks), format_count(scale.batch), in_unit(scale.seconds, time),
               in_unit(scale.waited, time), fmt::format("{:.0f} %", 100 * scale.efficiency)});
  }
  return "\n" + table.print();
}

std::string culprits_table(const PlanSummary& summary) {
  const bool fits = summary.fits() && !summary.limit;
  ByteTable table(fits ? "largest at the peak" : "largest at the peak without a limit");
  for (size_t i = 0; i < std::min(summary.culprits.size(), kMostCulprits); ++i) {
    const plan::Culprit& culprit = summary.culprits[i];
    table.add((culprit.layer.empty() ? "the step" : culprit.layer) + ", " + culprit.what,
              culprit.bytes);
  }
  return table.print(false);
}

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string why_table(const PlanSummary& summary) {
  if (summary.why_layer.empty()) return "";
  Bytes most;
  double longest = 0;
  for (const plan::ValueStory& story : summary.why) {
    most = max(most, story.whole);
    longest = std::max(longest, story.seconds);
  }
  const Unit size = size_unit(most);
  const Unit time = time_unit(longest);
  const auto bytes = [&](Bytes value) { return value > Bytes() ? in_unit(value, size) : "-"; };
  Table table({"value of " + summary.why_layer, with_unit("whole, ", size), "at the peak", "saves",
               with_unit("costs, ", time), "how"});
  for (const plan::ValueStory& story : summary.why) {
    table.add({story.value, bytes(story.whole), bytes(story.at_peak), bytes(story.saved),
               story.seconds > 0 ? in_unit(story.seconds, time) : "-", join(story.treatment)});
  }
  return "\n" + table.print();
}

std::string placement_words(const PlanSummary& summary) {
  const Bytes above = summary.planned_arena - summary.arena_load;
  if (above <= Bytes()) return "placed as tightly as these values allow";
  const double percent =
      100.0 * static_cast<double>(above.count()) / static_cast<double>(summary.arena_load.count());
  return fmt::format("placed {} ({:.2f} %) above what is alive at once", to_string(above), percent);
}

// How it is done, for those who ask.
std::string details(const PlanSummary& summary) {
  std::string text = "\nplan: " + summary.strategy;
  if (summary.arena_load > Bytes()) text += "; " + placement_words(summary);
  text += "\nkernels: " + summary.kernel_set;
  if (summary.lanes > 1) text += fmt::format("; the batch in {} lanes", summary.lanes);
  if (!summary.times.empty()) text += "; times: " + summary.times;
  return text + "\nguard: " + summary.guard + "\n";
}

std::string field_spelling(const OptionChange& change) {
  std::string name = change.option.substr(std::min<size_t>(2, change.option.size()));
  std::ranges::replace(name, '-', '_');
  if (change.left_out) return name + " left out";
  return change.value.empty() ? name : name + " = " + change.value;
}

// The cheapest first: what changes least, then what takes the least time.
std::vector<const Remedy*> cheapest_first(const PlanSummary& summary) {
  std::vector<const Remedy*> sorted;
  if (!summary.refusal) return sorted;
  for (const Remedy& remedy : summary.refusal->remedies) sorted.push_back(&remedy);
  std::ranges::stable_sort(sorted, [](const Remedy* a, const Remedy* b) {
    if (a->changes != b->changes) return a->changes < b->changes;
    return a->seconds_per_step < b->seconds_per_step;
  });
  return sorted;
}

// Against the other remedies that keep the result, by memory alone: what a file costs.
const char* speed_words(const PlanSummary& summary, const Remedy& remedy) {
  for (const Remedy& other : summary.refusal->remedies) {
    const bool memory = other.means == Means::kMemory && other.changes == Changes::kNothing;
    const bool known = other.seconds_per_step > 0 && remedy.seconds_per_step > 0;
    if (memory && known && other.seconds_per_step < remedy.seconds_per_step) return ", slower";
  }
  return "";
}

// As people say it; scripts know the other.
std::string effect_words(const PlanSummary& summary, const Remedy& remedy) {
  const bool memory = remedy.means == Means::kMemory;
  if (remedy.changes == Changes::kRounding && memory) {
    return "raise the limit, for smaller blocks: equal up to rounding";
  }
  if (remedy.changes != Changes::kNothing) return remedy.effect;
  switch (remedy.means) {
    case Means::kMemory:
      return "raise the limit: the same result";
    case Means::kMemoryAndFile:
      return std::string("raise the limit and use a spill file: the same result") +
             speed_words(summary, remedy);
    case Means::kFile:
      return std::string("use a spill file: the same result") + speed_words(summary, remedy);
    case Means::kTime:
      return "allow more time: the same result";
    default:
      return "the same result";
  }
}

bool differs(const Remedy& remedy) { return remedy.changes > Changes::kRounding; }

// "38.4 MiB, 31.1 s for 64 samples".
std::string costs(const PlanSummary& summary, const Remedy& remedy) {
  std::string text = enough(remedy.smallest);
  if (remedy.seconds_per_step == 0) return text;  // not planned yet
  text += ", " + format_seconds(remedy.seconds_per_step);
  if (remedy.means != Means::kBatch) return text + " a step";
  return fmt::format("{} for {} samples", text, summary.batch);
}

std::string command_lines(const PlanSummary& summary, const std::vector<const Remedy*>& remedies,
                          const Spelling& spell) {
  const int longer = summary.refusal ? summary.refusal->longer_search : 0;
  if (remedies.empty() && longer == 0) return "";
  std::string text =
      "\nremedies, the cheapest first: by what changes, then by the time of a step (";
  text += summary.times_measured ? "kernels measured here" : "estimated";
  text += "):\n";
  const auto spelled = [&](const OptionChange& change) {
    return spell ? spell(change) : field_spelling(change);
  };
  int number = 0;
  for (const Remedy* remedy : remedies) {
    text += fmt::format("  {}. {}{} ({})\n     {}\n", ++number, effect_words(summary, *remedy),
                        differs(*remedy) ? "; the result differs" : "", costs(summary, *remedy),
                        spelled(remedy->option));
  }
  if (longer == 0) return text;
  return text + fmt::format("  {}. search longer: the same result, if a plan is found\n     {}\n",
                            ++number, spelled({"--plan-time", std::to_string(longer)}));
}

std::string more_remedies(const PlanSummary& summary, const std::vector<const Remedy*>& remedies) {
  if (remedies.empty()) return "";
  Bytes most;
  double longest = 0;
  for (const Remedy* remedy : remedies) {
    most = max(most, remedy->smallest);
    longest = std::max(longest, remedy->seconds_per_step);
  }
  const Unit size = size_unit(most);
  const Unit time = time_unit(longest);
  Table table({"more remedies", size.name, with_unit("step, ", time), "result"});
  for (const Remedy* remedy : remedies) {
    table.add({"  " + remedy->change, in_unit(round_up_to_unit(remedy->smallest, size), size),
               in_unit(remedy->seconds_per_step, time), effect_words(summary, *remedy)});
  }
  return "\n" + table.print();
}

}  // namespace

std::string why_refused(const PlanSummary& summary) {
  if (!summary.refusal) return "";
  const Refusal& refusal = *summary.refusal;
  if (!refusal.bound) return refusal.reason;
  const std::string least = amount(refusal.bound->bytes, size_unit(refusal.bound->bytes));
  if (refusal.proved) {
    return "impossible below " + least + " (proved): " + refusal.bound->proof;
  }
  return "no plan within the limit was found. Below " + least +
         " it is impossible (proved); above that, nothing is proved";
}

std::string times_halved(int block_set) {
  if (block_set == 1) return "once";
  return block_set == 2 ? "twice" : fmt::format("{} times", block_set);
}

std::string format_factor(double factor) { return fmt::format("{:.4g}x", factor); }

std::string answer_sentence(const PlanSummary& summary) {
  if (summary.fits() || !summary.limit) return fits_sentence(summary);
  const Bytes limit = *summary.limit;
  const Unit unit = size_unit(max(limit, needed(summary)));
  const Bytes needs = round_up_to_unit(needed(summary), unit);
  const std::string within = amount(limit, unit);
  if (needs <= limit) return "does not fit: no plan found within the limit of " + within;
  const bool open = summary.refusal->bound && !summary.refusal->proved;
  return std::string("does not fit: ") + (open ? "the best plan found " : "") + "needs " +
         amount(needs, unit) + ", " + difference(needs, limit, unit) + " above the limit of " +
         within;
}

std::string refusal_sentence(const PlanSummary& summary) {
  return answer_sentence(summary) + "; " + (summary.refusal ? summary.refusal->reason : "");
}

std::string precision_note(const PlanSummary& summary) {
  const std::string& kernels = summary.kernel_set;
  if (summary.precision != "bf16" ||
      !(kernels.starts_with("onednn") || kernels.starts_with("cpu/"))) {
    return "";
  }
  for (const char* isa : {"/avx512_bf16", "/avx512_amx"}) {
    if (kernels.find(isa) != std::string::npos) return "";
  }
  return "this processor has no AVX512-BF16: bf16 saves memory here, but no time";
}

std::string to_head(const PlanSummary& summary) {
  return answer_sentence(summary) + "\n" + about_model(summary) + notes(summary);
}

std::string to_refusal(const PlanSummary& summary, const Spelling& spell) {
  std::vector<const Remedy*> commands;
  std::vector<const Remedy*> more;
  for (const Remedy* remedy : cheapest_first(summary)) {
    const bool told = commands.size() < kMostCommands && !remedy->option.option.empty();
    (told ? commands : more).push_back(remedy);
  }
  return answer_sentence(summary) + "\n" + command_lines(summary, commands, spell) +
         more_remedies(summary, more) + "\nwhy: " + why_refused(summary) + "\n";
}

std::string to_text(const PlanSummary& summary, bool with_frontier, const Spelling& spell) {
  const bool fits = summary.fits();
  std::string text =
      fits ? to_head(summary) : to_refusal(summary, spell) + "\n" + about_model(summary);
  if (fits) text += parts_table(summary);
  text += limits_table(summary);
  if (fits) text += scaling_table(summary);
  if (with_frontier) {
    text += points_table("limit, ", summary.frontier);
    text += points_table("for comparison, ", summary.plain);
  }
  text += culprits_table(summary) + why_table(summary);
  if (fits) text += details(summary);
  return text;
}

}  // namespace plimsoll::report
