# Several sources compiled as one: half of the time of a build from nothing goes into headers. After
# a change to one file it is slower, so only builds that begin from nothing each time ask for it.
#
#   plimsoll_together(<target>)
#
# groups_of_sources.py says which sources go together. tools/check reads each file by itself.

option(PLIMSOLL_TOGETHER "Compile several sources as one" OFF)
if(PLIMSOLL_TOGETHER)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()

function(plimsoll_together target)
  if(NOT PLIMSOLL_TOGETHER)
    return()
  endif()
  get_target_property(all ${target} SOURCES)
  set(sources "")
  foreach(source IN LISTS all)
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    if(source MATCHES "\\.cpp$" AND NOT options)
      list(APPEND sources "${source}")
    endif()
  endforeach()
  if(NOT sources)
    return()
  endif()
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/groups_of_sources.py" ${sources}
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    OUTPUT_VARIABLE lines
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "\t" lines "${lines}")
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^(.*)\t(.*)$")
      message(FATAL_ERROR "groups_of_sources.py: expected 'file;group', received '${line}'")
    endif()
    if(CMAKE_MATCH_2 STREQUAL "")
      set_source_files_properties("${CMAKE_MATCH_1}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    else()
      set_source_files_properties("${CMAKE_MATCH_1}" PROPERTIES UNITY_GROUP "${CMAKE_MATCH_2}")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
