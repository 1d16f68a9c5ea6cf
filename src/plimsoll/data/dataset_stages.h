#pragma once

// What is done to a whole data set before it is bound: parting, weighting, saying what it is.

#include <string>

#include "data/dataset.h"

namespace plimsoll::data {

// Takes the last `fraction` of the rows off `dataset`, as Keras's validation_split does: the part
// that is left holds floor(n × (1 − fraction)) rows. Where rows are sorted by class (image folders)
// the parts are taken from a shuffled order of `seed`. Throws kConfig where a part would be empty.
Dataset split_off(Dataset& dataset, double fraction, uint64_t seed);

// Multiplies sample weights by the weight of each sample's class: "balanced", or "0:1,1:3.5".
// Throws kConfig, kData where labels are no class numbers.
void weight_classes(Dataset& dataset, const std::string& text);

// Weight 1 for every sample of a data set that has none, as validation beside weighted training
// needs.
void add_unit_weights(Dataset& dataset);

// "32,561 samples of (108) float32 from 3.8 MiB of CSV, 512 KiB resident".
std::string describe(const Dataset& dataset);

}  // namespace plimsoll::data
