#pragma once

// Expects that `statement` throws a plimsoll::Error of a kind whose text holds a part.

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace plimsoll::test {

template <typename Body>
void expect_error(ErrorKind kind, const std::string& part, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.kind()), to_string(kind)) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "expected a message with \"" << part << "\", received: " << error.what();
    return;
  }
  ADD_FAILURE() << "expected an error with \"" << part << "\", received none";
}

}  // namespace plimsoll::test
