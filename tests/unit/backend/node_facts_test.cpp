#include "backend/cpu/node_facts.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::backend::cpu {
namespace {

TEST(Dense, RowMajorWithoutGaps) {
  const std::vector<int64_t> dims = {3, 4, 5};
  EXPECT_TRUE(is_dense(dims, std::vector<int64_t>{20, 5, 1}));
  EXPECT_FALSE(is_dense(dims, std::vector<int64_t>{40, 5, 1}));
  EXPECT_FALSE(is_dense(dims, std::vector<int64_t>{20, 6, 1}));
  EXPECT_TRUE(is_dense(std::vector<int64_t>{1, 4}, std::vector<int64_t>{99, 1}));
  EXPECT_TRUE(is_dense(std::vector<int64_t>{}, std::vector<int64_t>{}));
}

}  // namespace
}  // namespace plimsoll::backend::cpu
