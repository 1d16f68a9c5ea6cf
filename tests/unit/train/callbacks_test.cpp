#include "train/callbacks.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"

namespace plimsoll::train {
namespace {

using test::expect_error;

TEST(Callbacks, EarlyStoppingIsSpelledLikeKerasArguments) {
  EXPECT_EQ(parse_early_stopping(""), (EarlyStopping{0, 0, true}));
  EXPECT_EQ(parse_early_stopping("5"), (EarlyStopping{5, 0, true}));
  EXPECT_EQ(parse_early_stopping("min_delta=0.01,restore_best=false,patience=2"),
            (EarlyStopping{2, 0.01, false}));
  expect_error(ErrorKind::kConfig, "Did you mean \"patience\"?",
               [] { parse_early_stopping("patiense=3"); });
  expect_error(ErrorKind::kConfig, "a whole number of epochs", [] { parse_early_stopping("1.5"); });
  expect_error(ErrorKind::kConfig, "from 0 to", [] { parse_early_stopping("-1"); });
  expect_error(ErrorKind::kConfig, "expected a number for patience, received \"x\"",
               [] { parse_early_stopping("x"); });
}

TEST(Callbacks, PlateausAreSpelledLikeKerasArguments) {
  EXPECT_EQ(parse_reduce_on_plateau(""), (ReduceOnPlateau{0.1, 10, 1e-4, 0, 0}));
  EXPECT_EQ(parse_reduce_on_plateau("factor=0.5,patience=2,cooldown=1,min_lr=1e-5,min_delta=0"),
            (ReduceOnPlateau{0.5, 2, 0, 1, 1e-5}));
  expect_error(ErrorKind::kConfig, "expected factor from 0 to",
               [] { parse_reduce_on_plateau("factor=1"); });
}

}  // namespace
}  // namespace plimsoll::train
