#pragma once

// The line with which a program says that an exception ended it, of Python, Java, JavaScript, C#,
// Julia, C++ and the like: "ValueError: bad shape", "Caused by: java.io.IOException: …".
//
// Only the form is judged here: a name that programs give to errors, where such lines have it.
// Whether the exception was caught is asked elsewhere. Warnings are no exceptions.

#include <string_view>

namespace plimsoll::explain {

// The exception's name in a clean line that begins with it, or in which it stands glued after a
// bar; empty where the line is none. "Traceback" lines and source are none.
std::string_view exception_name(std::string_view line);

// Whether a raw line may be one, by a quick look: for the sieve.
bool may_name_exception(std::string_view text);

// "Somebody stopped it" is not an error.
bool is_wish(std::string_view exception);

// What ranks and launchers report when another process has failed.
bool is_consequence(std::string_view exception);

}  // namespace plimsoll::explain
