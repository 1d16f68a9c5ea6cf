#pragma once

// What is done to a whole data set before it is bound: parting, weighting, saying what it is.

#include <string>
#include <vector>

#include "data/dataset.h"

namespace plimsoll::data {

// Takes the last `fraction` of the rows off `dataset`, as Keras's validation_split does: the part
// that is left holds floor(n × (1 − fraction)) rows. Where rows are sorted by class (image folders)
// the parts are taken from a shuffled order of `seed`. Throws kConfig where a part would be empty.
Dataset split_off(Dataset& dataset, double fraction, uint64_t seed);

// Multiplies sample weights by the weight of each sample's class: "balanced", or "0:1,1:3.5".
// Throws kConfig, kData where labels are neither class numbers nor rows of classes;
// `class_numbers`: the loss reads nothing but class numbers.
void weight_classes(Dataset& dataset, const std::string& text, bool class_numbers = false);

// Weights of 1 in the shapes of `like`'s for a data set that has none, as validation beside
// weighted training needs.
void add_unit_weights(Dataset& dataset, const Dataset& like);
// The shape of a sample's weights, for each output.
std::vector<std::vector<int64_t>> weight_shapes(const Dataset& dataset);
// The shape of a sample's labels, for each output.
std::vector<std::vector<int64_t>> target_shapes(const Dataset& dataset);

// "32,561 samples of (108) float32 from 3.8 MiB of CSV, 512 KiB resident".
std::string describe(const Dataset& dataset);

}  // namespace plimsoll::data
