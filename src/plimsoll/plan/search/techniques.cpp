#include "plan/search/techniques.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace plimsoll::plan {
namespace {

constexpr std::array<Technique, 9> kTechniques = {{
    {"slices", "loops over slices of the batch", &PlanOptions::slices},
    {"nested-loops", "loops of small slices inside of loops of larger ones",
     &PlanOptions::nested_loops},
    {"reread-inputs", "inputs read again instead of kept", &PlanOptions::reread_inputs},
    {"in-place", "results in the memory of operands that are dead", &PlanOptions::in_place},
    {"saved-forms", "values kept as one bit an element", &PlanOptions::saved_forms},
    {"recompute", "values computed again instead of kept", &PlanOptions::recompute},
    {"late-updates", "updates after everything else, so that values can be computed again longer",
     &PlanOptions::deferred_updates},
    {"keep-packs", "packed weights kept from run to run where they do not change",
     &PlanOptions::keep_packs},
    {"several-placers", "several placers, and the best of them improved",
     &PlanOptions::several_placers},
}};

}  // namespace

std::span<const Technique> techniques() { return kTechniques; }

void switch_off(std::string_view names, PlanOptions& options) {
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, comma);
    names.remove_prefix(std::min(comma + 1, names.size()));
    const auto found = std::ranges::find(kTechniques, name, &Technique::name);
    if (found == kTechniques.end()) {
      std::vector<std::string_view> known;
      std::string list;
      for (const Technique& technique : kTechniques) {
        known.push_back(technique.name);
        list += (list.empty() ? "" : ", ") + std::string(technique.name);
      }
      throw Error(ErrorKind::kConfig, "--without: expected some of " + list + ", received \"" +
                                          std::string(name) + "\"." + did_you_mean(name, known));
    }
    options.*(found->on) = false;
  }
}

}  // namespace plimsoll::plan
