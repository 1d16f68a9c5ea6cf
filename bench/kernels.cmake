# Benches of single kernels; included by CMakeLists.txt of this folder.
plimsoll_program(s0a_kernels SOURCES s0a_kernels.cpp node_bench.cpp DEPENDS backend)
