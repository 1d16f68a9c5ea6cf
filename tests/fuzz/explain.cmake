# Any bytes through the explainer and the reader of memory snapshots. Included by CMakeLists.txt;
# clang only.
foreach(name explain snapshot)
  add_executable(${name}_fuzz ${name}_fuzz.cpp)
  target_link_libraries(${name}_fuzz PRIVATE plimsoll_explain -fsanitize=fuzzer)
endforeach()
