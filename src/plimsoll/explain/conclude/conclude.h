#pragma once

// From a case to the answer: the fields of the Explanation, assembled in one place.

#include "explain/conclude/cause.h"
#include "explain/conclude/model_shapes.h"
#include "explain/detect/case.h"

namespace plimsoll::explain {

Explanation conclude(const Document& document, const Facts& facts, const ModelShapes& model);

// When it happened, with the lines that tell. Sets when and when_text.
void tell_when(const Case& found, Explanation& explanation);

// Fills advice, not_worth, corrections, collect and the Plimsoll command.
void advise(const Case& found, Explanation& explanation);

}  // namespace plimsoll::explain
