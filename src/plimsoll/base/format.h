#pragma once

// Text with values in it: fmt::format("row {} of {}", row, rows). The format is checked at compile
// time.
//
// The library fmt is compiled once, by format.cpp, from its headers: hidden like all of our code,
// and in an inline namespace that is ours alone. A host that links an fmt of its own, or a library
// that puts one into the global scope (TensorFlow does), can neither be bound to this one nor give
// us theirs.
//
// For sources only (tools/check_layers.py): who includes an installed header needs no fmt. Text
// never depends on the locale. A double needs a format ({:f}, {:.1f}): plain {} writes as many
// digits as tell it from its neighbours. What has a to_string of ours is passed through that.

#define FMT_BEGIN_NAMESPACE \
  namespace fmt {           \
  inline namespace in_plimsoll {
#define FMT_END_NAMESPACE \
  }                       \
  }

#include <fmt/core.h>
