# The words in which the folders describe themselves:
#
#   plimsoll_library(<folder> SOURCES a.cpp … [DEPENDS folder …] [LIBS target …])
#       static library plimsoll_<folder>; a folder without sources (headers only) is allowed
#   plimsoll_program(<name> SOURCES main.cpp [DEPENDS folder …] [LIBS target …] [FOLDER bin]
#                    [OUTPUT file])
#       executable build/<folder>/<file>, installed in the folder of that name
#   plimsoll_test(<folder> SOURCES x_test.cpp … [DEPENDS folder …] [LIBS target …] [LABELS slow])
#       executable plimsoll_<folder>_tests, ctest "unit.<folder>"
#   plimsoll_suite(<name> …)
#       the same for a suite that belongs to no folder: executable plimsoll_<name>_tests, ctest
#       "<name>"
#
# Sources are listed by name; the include root is src/plimsoll. Which folder may use which is checked
# by tools/check_layers.py.

set(PLIMSOLL_SOURCE_ROOT "${CMAKE_CURRENT_SOURCE_DIR}/src/plimsoll")
set(PLIMSOLL_TESTS_ROOT "${CMAKE_CURRENT_SOURCE_DIR}/tests")

# The public header <plimsoll/plimsoll.h>, for programs in this build as for those outside.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/include/plimsoll/plimsoll.h"
     CONTENT "#pragma once\n#include \"api/plimsoll.h\"\n")

function(plimsoll_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;LIBS")
  set(target plimsoll_${folder})
  list(TRANSFORM arg_DEPENDS PREPEND plimsoll_)
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(reach PUBLIC)
    target_link_libraries(${target} PRIVATE ${arg_LIBS})
    if(folder IN_LIST PLIMSOLL_OPTIMIZED)
      target_compile_options(${target} PRIVATE -O1)
    elseif(folder IN_LIST PLIMSOLL_SMALL)
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-Os>)
    endif()
    plimsoll_precompile(${target} LIBRARY)
    plimsoll_together(${target})
  else()
    add_library(${target} INTERFACE)
    set(reach INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_LIBS})
  endif()
  target_include_directories(
    ${target}
    ${reach}
    "$<BUILD_INTERFACE:${PLIMSOLL_SOURCE_ROOT}>"
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/plimsoll>")
  target_compile_features(${target} ${reach} cxx_std_20)
  target_link_libraries(${target} ${reach} ${arg_DEPENDS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder})
  add_library(Plimsoll::${folder} ALIAS ${target})
endfunction()

function(plimsoll_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FOLDER;OUTPUT" "SOURCES;DEPENDS;LIBS")
  list(TRANSFORM arg_DEPENDS PREPEND plimsoll_)
  if(NOT arg_FOLDER)
    set(arg_FOLDER "${CMAKE_INSTALL_BINDIR}")
  endif()
  if(NOT arg_OUTPUT)
    set(arg_OUTPUT ${name})
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} ${arg_LIBS})
  plimsoll_together(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${arg_FOLDER}"
                                           OUTPUT_NAME ${arg_OUTPUT})
  install(TARGETS ${name} RUNTIME DESTINATION "${arg_FOLDER}")
endfunction()

# Target plimsoll_fast_tests: what `ctest -LE slow` runs, and no more.
function(plimsoll_runs_fast target)
  if(NOT TARGET plimsoll_fast_tests)
    add_custom_target(plimsoll_fast_tests)
  endif()
  add_dependencies(plimsoll_fast_tests ${target})
endfunction()

function(plimsoll_suite name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMIZED" "CTEST_NAME;SHARDS" "SOURCES;DEPENDS;LIBS;LABELS")
  set(target plimsoll_${name}_tests)
  list(TRANSFORM arg_DEPENDS PREPEND plimsoll_)
  if(NOT arg_CTEST_NAME)
    set(arg_CTEST_NAME ${name})
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} ${arg_LIBS} GTest::gmock GTest::gtest_main)
  target_include_directories(${target} PRIVATE "${PLIMSOLL_SOURCE_ROOT}" "${PLIMSOLL_TESTS_ROOT}")
  if(arg_OPTIMIZED)
    target_compile_options(${target} PRIVATE -O1)
  endif()
  plimsoll_precompile(${target} TEST)
  plimsoll_together(${target})
  if(NOT "slow" IN_LIST arg_LABELS)
    plimsoll_runs_fast(${target})
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    set(test ${arg_CTEST_NAME})
    if(arg_SHARDS GREATER 1)
      set(test ${arg_CTEST_NAME}.${shard})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${test} COMMAND ${target})
    set_tests_properties(
      ${test}
      PROPERTIES
        LABELS "${arg_LABELS}"
        TIMEOUT 1500
        WORKING_DIRECTORY "${PLIMSOLL_TESTS_ROOT}"
        ENVIRONMENT
        "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/reports/${test}.xml;GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
    if("slow" IN_LIST arg_LABELS)
      set_tests_properties(${test} PROPERTIES COST 1000)  # begins first, beside the others
    endif()
  endforeach()
endfunction()

function(plimsoll_test folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;LIBS;LABELS")
  set(optimized "")
  if(folder IN_LIST PLIMSOLL_OPTIMIZED)
    set(optimized OPTIMIZED)
  endif()
  plimsoll_suite(${folder} ${optimized} CTEST_NAME unit.${folder} SOURCES ${arg_SOURCES}
                 DEPENDS ${folder} ${arg_DEPENDS} LIBS ${arg_LIBS} LABELS ${arg_LABELS})
endfunction()
