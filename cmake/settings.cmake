# Compiler and linker settings of every target. Results must not depend on the build: no contraction
# of a*b+c, no fast-math, the same optimisation level in tests and in releases.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2")
  # Debug information is a tenth of the time of a build from nothing, and of use to who debugs or
  # reads what a sanitizer found.
  if(NOT PLIMSOLL_TOGETHER OR PLIMSOLL_SANITIZE)
    string(APPEND CMAKE_CXX_FLAGS_RELWITHDEBINFO " -g1")
  endif()
  find_program(PLIMSOLL_CCACHE ccache)
  mark_as_advanced(PLIMSOLL_CCACHE)
  if(PLIMSOLL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${PLIMSOLL_CCACHE}")
  endif()
endif()

add_compile_options(-Wall -Wextra -ffp-contract=off -ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections -Wl,--as-needed)
if(PLIMSOLL_WERROR)
  add_compile_options(-Werror)
endif()

if(PLIMSOLL_SANITIZE)
  string(REPLACE "," ";" plimsoll_sanitizers "${PLIMSOLL_SANITIZE}")
  foreach(sanitizer IN LISTS plimsoll_sanitizers)
    if(NOT sanitizer MATCHES "^(address|undefined|thread)$")
      message(FATAL_ERROR "PLIMSOLL_SANITIZE: expected address, undefined or thread, received "
                          "'${sanitizer}'. Separate several by commas.")
    endif()
  endforeach()
  add_compile_options(-fsanitize=${PLIMSOLL_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  # Instrumented code takes twice as long to compile as plain code, so only what tests wait for is
  # optimised (plimsoll_library, plimsoll_test); in fuzz targets that is all.
  add_compile_options($<IF:$<BOOL:${PLIMSOLL_FUZZ}>,-O1,-O0>)
  set(PLIMSOLL_OPTIMIZED base graph ops plan exec backend)
  # GCC 12 sees uninitialised temporaries in instrumented code that are none, and without
  # optimisation ends of functions after a check that always fails. Plain builds look for both.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-return-type>)
  add_link_options(-fsanitize=${PLIMSOLL_SANITIZE})
else()
  # What runs once a command and is most of the program's text: a table of all that Keras names,
  # and what is told. Made for size.
  set(PLIMSOLL_SMALL layers report cli)
endif()

if(PLIMSOLL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PLIMSOLL_FUZZ needs clang, received ${CMAKE_CXX_COMPILER_ID}. "
                        "Use the preset 'fuzz', or pass -DCMAKE_CXX_COMPILER=clang++.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
