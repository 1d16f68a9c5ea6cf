# Any bytes as a command's output and as the kernel's files. Included by CMakeLists.txt; clang only.
foreach(name watch_output watch_readings)
  add_executable(${name}_fuzz ${name}_fuzz.cpp)
  target_link_libraries(${name}_fuzz PRIVATE plimsoll_watch -fsanitize=fuzzer)
endforeach()
