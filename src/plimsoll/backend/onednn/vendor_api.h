#pragma once

// The functions of the vendor's library that we call, as a table.
//
// Two libraries bring the table, and whoever links us takes one of them: vendor_linked.cpp is bound
// to the library as any other is; vendor_private.cpp loads a copy under a name of its own, for
// processes in which another oneDNN lives (TensorFlow and PyTorch bring theirs). The copy's symbols
// are not offered to anybody and its own calls stay inside of it (cmake/private_copy.cpp), so that
// neither sees the other; it is the same code, and gives the same bits.

#include <dnnl.h>

namespace plimsoll::backend::onednn {

// The vendor's header calls one or the other by how the library was built.
#ifdef DNNL_EXPERIMENTAL_SPARSE
#define PLIMSOLL_VENDOR_MEMORY_FUNCTIONS(X) \
  X(dnnl_memory_create_v2)                  \
  X(dnnl_memory_desc_get_size_v2)           \
  X(dnnl_memory_desc_query_v2)
#else
#define PLIMSOLL_VENDOR_MEMORY_FUNCTIONS(X) X(dnnl_memory_create)
#endif

#define PLIMSOLL_VENDOR_FUNCTIONS(X)                         \
  PLIMSOLL_VENDOR_MEMORY_FUNCTIONS(X)                        \
  X(dnnl_convolution_backward_data_primitive_desc_create)    \
  X(dnnl_convolution_backward_weights_primitive_desc_create) \
  X(dnnl_convolution_forward_primitive_desc_create)          \
  X(dnnl_engine_create)                                      \
  X(dnnl_engine_destroy)                                     \
  X(dnnl_matmul_primitive_desc_create)                       \
  X(dnnl_memory_desc_clone)                                  \
  X(dnnl_memory_desc_create_with_strides)                    \
  X(dnnl_memory_desc_create_with_tag)                        \
  X(dnnl_memory_desc_destroy)                                \
  X(dnnl_memory_desc_equal)                                  \
  X(dnnl_memory_desc_get_size)                               \
  X(dnnl_memory_desc_query)                                  \
  X(dnnl_memory_destroy)                                     \
  X(dnnl_memory_set_data_handle)                             \
  X(dnnl_post_ops_append_eltwise)                            \
  X(dnnl_post_ops_append_sum)                                \
  X(dnnl_post_ops_create)                                    \
  X(dnnl_post_ops_destroy)                                   \
  X(dnnl_primitive_attr_create)                              \
  X(dnnl_primitive_attr_destroy)                             \
  X(dnnl_primitive_attr_set_post_ops)                        \
  X(dnnl_primitive_attr_set_scratchpad_mode)                 \
  X(dnnl_primitive_create)                                   \
  X(dnnl_primitive_desc_destroy)                             \
  X(dnnl_primitive_desc_next_impl)                           \
  X(dnnl_primitive_desc_query)                               \
  X(dnnl_primitive_desc_query_md)                            \
  X(dnnl_primitive_destroy)                                  \
  X(dnnl_primitive_execute)                                  \
  X(dnnl_set_max_cpu_isa)                                    \
  X(dnnl_set_primitive_cache_capacity)                       \
  X(dnnl_sgemm)                                              \
  X(dnnl_stream_create)                                      \
  X(dnnl_stream_destroy)                                     \
  X(dnnl_version)

struct VendorApi {
#define PLIMSOLL_MEMBER(name) decltype(&::name) name = nullptr;
  PLIMSOLL_VENDOR_FUNCTIONS(PLIMSOLL_MEMBER)
#undef PLIMSOLL_MEMBER
};

// The first call loads a private copy; throws kIo where there is none.
const VendorApi& vendor_api();

}  // namespace plimsoll::backend::onednn
