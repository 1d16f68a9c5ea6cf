# The sources of onednn/, and what they need; replaces the stub in onednn_sources.
set(onednn_sources
    onednn/convolution.cpp
    onednn/convolution_operands.cpp
    onednn/convolution_shares.cpp
    onednn/convolution_tables.cpp
    onednn/dense.cpp
    onednn/library_pages.cpp
    onednn/onednn.cpp
    onednn/packed_layout.cpp
    onednn/primitive_cache.cpp
    onednn/primitives.cpp
    onednn/repack.cpp
    onednn/resident.cpp
    onednn/vendor.cpp)
include("${PROJECT_SOURCE_DIR}/cmake/onednn.cmake")
set(onednn_libs ${onednn_way} OpenMP::OpenMP_CXX)
