#pragma once

// Names of frameworks in the paths of files. A folder may be called anything
// ("/home/ana/tf2.18.1-keras3.15.1/train.py"), so a path speaks for a framework only where it goes
// through the framework's own package: "…/site-packages/tensorflow/…", or a source of its build
// ("tensorflow/core/…", "/pytorch/aten/…").

#include <string_view>

#include "explain/detect/facts.h"
#include "explain/read/document.h"

namespace plimsoll::explain {

// The installed package that a path goes through: what stands after "site-packages", or
// "dist-packages"; empty where there is none.
std::string_view package_of(std::string_view path);

// The first place where the lower-case words speak for a framework: outside of paths, or in one
// that goes through a package of some framework. npos where there is none.
size_t find_framework_words(const Document& document, std::string_view words);

// The framework whose package the last frame of a traceback is in that is in one; empty: none is.
std::string_view framework_of_frames(const Document& document, const Traceback& traceback);

}  // namespace plimsoll::explain
