# The sources of cpu/ and onednn/, and what they need; replaces the stub in onednn_sources.
set(onednn_loops
    cpu/activations.cpp
    cpu/attention_tiles.cpp
    cpu/channel_groups.cpp
    cpu/channels.cpp
    cpu/column_sums.cpp
    cpu/conv_pool.cpp
    cpu/conv_pool_pairs.cpp
    cpu/elementwise.cpp
    cpu/embedding.cpp
    cpu/few_channels.cpp
    cpu/kernel_grad.cpp
    cpu/narrow_dense.cpp
    cpu/optimizers.cpp
    cpu/packed_product.cpp
    cpu/paired_kernel_grad.cpp
    cpu/paired_product.cpp
    cpu/pooling.cpp
    cpu/product.cpp
    cpu/rows.cpp
    cpu/scan.cpp
    cpu/tiled_kernel_grad.cpp
    cpu/tiled_pool_loops.cpp
    cpu/tiled_product.cpp
    cpu/transposed_dense.cpp
    cpu/winograd.cpp
    cpu/winograd_kernel_grad.cpp)
set(onednn_sources
    cpu/attention.cpp
    cpu/cpu_kernels.cpp
    cpu/dense_crossentropy.cpp
    cpu/dense_grad_update.cpp
    cpu/dense_shape.cpp
    cpu/moving.cpp
    cpu/node_facts.cpp
    cpu/packed_dense.cpp
    cpu/recurrent.cpp
    cpu/tiled_conv_pool.cpp
    cpu/widened_rows.cpp
    onednn/blocks.cpp
    onednn/convolution.cpp
    onednn/convolution_shares.cpp
    onednn/convolution_tables.cpp
    onednn/cost_model.cpp
    onednn/dense.cpp
    onednn/kernel_library.cpp
    onednn/onednn.cpp
    onednn/library_pages.cpp
    onednn/packed_layout.cpp
    onednn/primitive_cache.cpp
    onednn/repack.cpp
    onednn/resident.cpp
    onednn/vendor.cpp
    ${onednn_loops})
set(onednn_libs DNNL::dnnl OpenMP::OpenMP_CXX)

# Loops are vectorized in every build. Neither flag changes a result: there are no traps and nobody
# reads errno.
set_source_files_properties(${onednn_loops} PROPERTIES
                            COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math")
