# Any bytes through the explainer. Included by CMakeLists.txt; clang only.
add_executable(explain_fuzz explain_fuzz.cpp)
target_link_libraries(explain_fuzz PRIVATE plimsoll_explain -fsanitize=fuzzer)
