#pragma once

// Whether a sanitizer watches this build. It makes code some fifteen times slower, so that tests
// that repeat themselves with other numbers take fewer of them there; a plain build takes all.

namespace plimsoll::toys {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace plimsoll::toys
