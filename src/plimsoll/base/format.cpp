#include "base/format.h"

#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE

// What <fmt/format.h> declares as made elsewhere, and this is where.
namespace detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
}  // namespace detail

FMT_END_NAMESPACE
