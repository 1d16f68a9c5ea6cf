#include "train/session_streams.h"

#include <array>

#include "train/session.h"

namespace plimsoll::train {

planning::DataOpening opening_of(const data::Dataset& dataset, const data::Dataset* validation) {
  planning::DataOpening opening{dataset.opening_peak, dataset.opened_bytes()};
  if (validation == nullptr) return opening;
  opening.held += validation->opened_bytes();
  opening.peak = max(opening.peak, dataset.held_bytes() + validation->opening_peak);
  return opening;
}

std::vector<data::InputBinding> bindings_of(const std::vector<layers::ProgramInput>& inputs) {
  std::vector<data::InputBinding> bindings;
  std::array<int, 3> next{};
  for (const layers::ProgramInput& input : inputs) {
    data::InputBinding binding;
    binding.role = static_cast<data::InputBinding::Role>(input.role);
    binding.index = next[static_cast<size_t>(input.role)]++;
    binding.name = input.name;
    binding.dtype = input.dtype;
    binding.row_elements = input.shape.elements_per_sample();
    binding.class_count = input.class_count;
    binding.ignored_class = input.ignored_class;
    if (input.role != layers::InputRole::kSampleWeight) {
      const std::vector<int64_t> shape = input.shape.at(1);
      binding.sample_shape.emplace(shape.begin() + 1, shape.end());
    }
    for (const layers::IndexBound& bound : input.bounds) {
      binding.bounds.push_back(
          {bound.begin, bound.end, bound.row_count, bound.table, bound.step, bound.count});
    }
    bindings.push_back(std::move(binding));
  }
  return bindings;
}

}  // namespace plimsoll::train
