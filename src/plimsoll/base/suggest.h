#pragma once

// "Did you mean": the known name that is nearest to an unknown one.
//
// Distance is the number of inserted, deleted, replaced or swapped neighbouring characters, letters
// compared without case. A candidate is offered only when it is near (a third of its length at
// most), so that a wild guess yields nothing. Ties go to the candidate that comes first.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// Edits that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

// ` Did you mean "conv2d"?`, with the leading blank, or "" when nothing is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);
std::string did_you_mean(std::string_view name, std::initializer_list<std::string_view> candidates);

// The same of a path that is not there, among the first thousand names in its folder.
std::string did_you_mean_file(const std::string& path);

}  // namespace plimsoll
