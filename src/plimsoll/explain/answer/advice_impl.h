#pragma once

// Shared by the advice of all causes. Advice is ordered; each piece has the arithmetic that the log
// allows and the call in the user's own framework.

#include "explain/conclude/conclude.h"

namespace plimsoll::explain {

void advise_device(const Case& found, Explanation& explanation);
// Options of a program that the log names; false where it names none. Says its usual reasons too.
bool advise_program(const Case& found, Explanation& explanation);
// Servers of language models whose accounts were read; false for anything else.
bool advise_server(const Case& found, Explanation& explanation);
// Whose device it is, by the words of the log; NVIDIA's where nothing speaks of another.
enum class Vendor { kNvidia, kAmd, kIntel, kApple, kOther };
Vendor vendor_of(const Case& found);
// Who else is on the device.
void look_at_users(const Case& found, Explanation& explanation);
void advise_host(const Case& found, Explanation& explanation);
void advise_limits(const Case& found, Explanation& explanation);
// Wrong advice that the log or script shows, and what is true instead.
void correct(const Case& found, Explanation& explanation);
// What the log does not say and how to get it.
void ask_for_more(const Case& found, Explanation& explanation);

// Half as many samples a step, with gradients added up where the framework does that.
struct HalfBatch {
  std::string action;
  std::string code;
};
HalfBatch half_batch(const Case& found, const std::string& size);

inline std::string plan_command(const Case& found) { return "plimsoll plan " + found.model; }

// Bytes that are missing: the request minus what could have served it; nothing if unknown.
std::optional<int64_t> shortage(const Explanation& explanation);

inline void add_advice(Explanation& explanation, std::string action, std::string arithmetic,
                       std::string code, std::optional<int64_t> saves = std::nullopt) {
  explanation.advice.push_back({std::move(action), std::move(arithmetic), std::move(code), saves});
}

inline void add_not_worth(Explanation& explanation, std::string action, std::string reason) {
  explanation.not_worth.push_back({std::move(action), std::move(reason)});
}

}  // namespace plimsoll::explain
