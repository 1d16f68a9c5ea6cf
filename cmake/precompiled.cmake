# Headers that most files include, precompiled: in instrumented builds, whose objects no other build
# shares by ccache, parsing them is half of the work.
#
#   plimsoll_precompile(<target> LIBRARY|TEST)
#
# Targets that are compiled alike share one. Builds without it see whether each file includes what it
# uses.

option(PLIMSOLL_PRECOMPILE "Precompile the headers that most files include" OFF)

set(plimsoll_common_headers
    <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory>
    <mutex> <numeric> <optional> <set> <span> <string> <string_view> <tuple> <utility> <variant>
    <vector>)

function(plimsoll_precompile target kind)
  if(NOT PLIMSOLL_PRECOMPILE)
    return()
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  set(holder "plimsoll_precompiled_${kind}")
  if("-O1" IN_LIST options)
    string(APPEND holder "_O1")
  endif()
  get_target_property(libraries ${target} LINK_LIBRARIES)
  if("OpenMP::OpenMP_CXX" IN_LIST libraries)
    string(APPEND holder "_OpenMP")
  endif()
  if(NOT TARGET ${holder})
    file(WRITE "${PROJECT_BINARY_DIR}/precompiled/${holder}.cpp" "")
    add_library(${holder} OBJECT "${PROJECT_BINARY_DIR}/precompiled/${holder}.cpp")
    if(holder MATCHES "_O1")
      target_compile_options(${holder} PRIVATE -O1)
    endif()
    if(holder MATCHES "_OpenMP")
      target_link_libraries(${holder} PRIVATE OpenMP::OpenMP_CXX)
    endif()
    set(headers ${plimsoll_common_headers})
    if(kind STREQUAL "TEST")
      list(APPEND headers <gmock/gmock.h> <gtest/gtest.h>)
      target_link_libraries(${holder} PRIVATE GTest::gmock)
      # As programs are compiled.
      set_target_properties(${holder} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${holder} PRIVATE -fPIE)
    endif()
    target_precompile_headers(${holder} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${holder})
endfunction()
