# One program per reader of model files.
foreach(name keras_json keras_archive keras_h5 keras_weights)
  add_executable(${name}_fuzz ${name}_fuzz.cpp)
  target_include_directories(${name}_fuzz PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name}_fuzz PRIVATE plimsoll_formats -fsanitize=fuzzer)
endforeach()
