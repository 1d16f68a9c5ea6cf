# Containers and images, files of data, and the text of graphs and plans.
foreach(name hdf5 zip image)
  add_executable(${name}_fuzz ${name}_fuzz.cpp)
  target_link_libraries(${name}_fuzz PRIVATE plimsoll_codec -fsanitize=fuzzer)
endforeach()

add_executable(data_fuzz data_fuzz.cpp)
target_link_libraries(data_fuzz PRIVATE plimsoll_data -fsanitize=fuzzer)

add_executable(plan_text_fuzz plan_text_fuzz.cpp ../toys/toy_ops.cpp ../toys/toy_plans.cpp)
target_link_libraries(plan_text_fuzz PRIVATE plimsoll_plan -fsanitize=fuzzer)

foreach(name hdf5 zip image data plan_text)
  target_include_directories(${name}_fuzz PRIVATE "${PROJECT_SOURCE_DIR}/tests")
endforeach()
