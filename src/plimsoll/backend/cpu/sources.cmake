# The sources of cpu/.
set(cpu_loops
    cpu/conv/channel_groups.cpp
    cpu/conv/channels.cpp
    cpu/conv/conv_pool.cpp
    cpu/conv/conv_pool_pairs.cpp
    cpu/conv/depthwise.cpp
    cpu/conv/few_channels.cpp
    cpu/conv/kernel_grad.cpp
    cpu/conv/paired_kernel_grad.cpp
    cpu/conv/patches.cpp
    cpu/conv/pooling.cpp
    cpu/conv/tiled_kernel_grad.cpp
    cpu/conv/tiled_pool_loops.cpp
    cpu/conv/volume_pooling.cpp
    cpu/conv/winograd.cpp
    cpu/conv/winograd_kernel_grad.cpp
    cpu/pointwise/elementwise.cpp
    cpu/pointwise/embedding.cpp
    cpu/pointwise/masks.cpp
    cpu/pointwise/optimizers.cpp
    cpu/pointwise/rows.cpp
    cpu/pointwise/stretched.cpp
    cpu/product/column_sums.cpp
    cpu/product/few_rows.cpp
    cpu/product/few_units.cpp
    cpu/product/packed_product.cpp
    cpu/product/paired_product.cpp
    cpu/product/product.cpp
    cpu/product/small_gradient.cpp
    cpu/product/tiled_product.cpp
    cpu/product/transposed_dense.cpp
    cpu/sequence/attention_tiles.cpp
    cpu/sequence/scan.cpp
    cpu/simd/activations.cpp
    cpu/simd/bfloat16.cpp)
set(cpu_sources
    cpu/blocks.cpp
    cpu/catalog.cpp
    cpu/conv/patch_convolution.cpp
    cpu/conv/tiled_conv_pool.cpp
    cpu/cost_model.cpp
    cpu/cpu.cpp
    cpu/cpu_kernels.cpp
    cpu/kernel_library.cpp
    cpu/node_facts.cpp
    cpu/pointwise/images.cpp
    cpu/pointwise/moving.cpp
    cpu/product/dense_crossentropy.cpp
    cpu/product/dense_grad_update.cpp
    cpu/product/dense_shape.cpp
    cpu/product/packed_dense.cpp
    cpu/product/widened_rows.cpp
    cpu/shared_reference.cpp
    cpu/sequence/attention.cpp
    cpu/sequence/recurrent.cpp
    cpu/threads/shared_conversion.cpp
    cpu/threads/team.cpp
    cpu/threads/threads.cpp
    ${cpu_loops})

# Loops are vectorized in every build, and where they say so without threads or a library of
# OpenMP's. No flag changes a result: there are no traps and nobody reads errno.
set_source_files_properties(${cpu_loops} PROPERTIES
                            COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math;-fopenmp-simd"
                            SKIP_PRECOMPILE_HEADERS ON)
