# The sources of cpu/ and onednn/, and what they need; replaces the stub in onednn_sources.
set(onednn_loops
    cpu/conv/channel_groups.cpp
    cpu/conv/channels.cpp
    cpu/conv/conv_pool.cpp
    cpu/conv/conv_pool_pairs.cpp
    cpu/conv/few_channels.cpp
    cpu/conv/kernel_grad.cpp
    cpu/conv/paired_kernel_grad.cpp
    cpu/conv/pooling.cpp
    cpu/conv/tiled_kernel_grad.cpp
    cpu/conv/tiled_pool_loops.cpp
    cpu/conv/winograd.cpp
    cpu/pointwise/elementwise.cpp
    cpu/pointwise/embedding.cpp
    cpu/pointwise/optimizers.cpp
    cpu/pointwise/rows.cpp
    cpu/product/column_sums.cpp
    cpu/product/narrow_dense.cpp
    cpu/product/packed_product.cpp
    cpu/product/paired_product.cpp
    cpu/product/product.cpp
    cpu/product/tiled_product.cpp
    cpu/product/transposed_dense.cpp
    cpu/sequence/attention_tiles.cpp
    cpu/sequence/scan.cpp
    cpu/simd/activations.cpp
    cpu/simd/bfloat16.cpp
    cpu/conv/winograd_kernel_grad.cpp)
set(onednn_sources
    cpu/conv/tiled_conv_pool.cpp
    cpu/cpu_kernels.cpp
    cpu/node_facts.cpp
    cpu/pointwise/moving.cpp
    cpu/product/dense_crossentropy.cpp
    cpu/product/dense_grad_update.cpp
    cpu/product/dense_shape.cpp
    cpu/product/packed_dense.cpp
    cpu/product/widened_rows.cpp
    cpu/sequence/attention.cpp
    cpu/sequence/recurrent.cpp
    cpu/threads/shared_conversion.cpp
    onednn/blocks.cpp
    onednn/convolution.cpp
    onednn/convolution_shares.cpp
    onednn/convolution_tables.cpp
    onednn/cost_model.cpp
    onednn/dense.cpp
    onednn/kernel_library.cpp
    onednn/library_pages.cpp
    onednn/onednn.cpp
    onednn/packed_layout.cpp
    onednn/primitive_cache.cpp
    onednn/repack.cpp
    onednn/resident.cpp
    onednn/vendor.cpp
    ${onednn_loops})
include("${PROJECT_SOURCE_DIR}/cmake/onednn.cmake")
set(onednn_libs ${onednn_way} OpenMP::OpenMP_CXX)

# Loops are vectorized in every build. Neither flag changes a result: there are no traps and nobody
# reads errno.
set_source_files_properties(${onednn_loops} PROPERTIES
                            COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math"
                            SKIP_PRECOMPILE_HEADERS ON)
