#pragma once

// Rows made of other rows: a part of them, one constant, weights by class.
//
// Views hold no data of their own but small tables; several may share one source, which then
// belongs to all of them. They read one after another, never at once.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/rows/permutation.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

// Rows [first, first + count) of `source`, or of its rows in the order of `order` where that is not
// the identity. The source's buffers count in the view with `counts_source`.
std::unique_ptr<RowSource> part_of(std::shared_ptr<RowSource> source, const Permutation& order,
                                   int64_t first, int64_t count, bool counts_source);

// The same number in every element of every row.
std::unique_ptr<RowSource> constant_rows(double value, int64_t row_count,
                                         std::vector<int64_t> row_shape = {});

// Class numbers and their weights; a class that is not named weighs 1.
using ClassWeights = std::map<int64_t, double>;
// "0:1,1:3.5". Throws kConfig.
ClassWeights parse_class_weights(std::string_view text);
// The class of a row is its label, or the place of the largest number of a row of several, as Keras
// takes them.
//
// n / (classes × rows of that class), so that all classes weigh the same. Reads all labels once.
// Throws kData unless every label is one whole number, or a row of several numbers.
ClassWeights balanced_class_weights(RowSource& labels);
// The weight of each row's class, times its own weights in `weights` where that is not null.
std::unique_ptr<RowSource> weights_by_class(std::shared_ptr<RowSource> labels, ClassWeights classes,
                                            std::shared_ptr<RowSource> weights);

}  // namespace plimsoll::data
