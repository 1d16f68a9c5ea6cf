#pragma once

// The vendor's C++ interface over the table of vendor_api.h, in a namespace of our own: a host that
// is compiled with the same header has functions of the same names, bound to its library.

#include "backend/onednn/vendor_api.h"

// The calls in our code and in the vendor's header that the table has.
#define PLIMSOLL_CALL(name) ::plimsoll::backend::onednn::vendor_api().name
#define dnnl_convolution_backward_data_primitive_desc_create \
  PLIMSOLL_CALL(dnnl_convolution_backward_data_primitive_desc_create)
#define dnnl_convolution_backward_weights_primitive_desc_create \
  PLIMSOLL_CALL(dnnl_convolution_backward_weights_primitive_desc_create)
#define dnnl_convolution_forward_primitive_desc_create \
  PLIMSOLL_CALL(dnnl_convolution_forward_primitive_desc_create)
#define dnnl_engine_create PLIMSOLL_CALL(dnnl_engine_create)
#define dnnl_engine_destroy PLIMSOLL_CALL(dnnl_engine_destroy)
#define dnnl_matmul_primitive_desc_create PLIMSOLL_CALL(dnnl_matmul_primitive_desc_create)
#define dnnl_memory_create PLIMSOLL_CALL(dnnl_memory_create)
#define dnnl_memory_create_v2 PLIMSOLL_CALL(dnnl_memory_create_v2)
#define dnnl_memory_desc_clone PLIMSOLL_CALL(dnnl_memory_desc_clone)
#define dnnl_memory_desc_create_with_strides PLIMSOLL_CALL(dnnl_memory_desc_create_with_strides)
#define dnnl_memory_desc_create_with_tag PLIMSOLL_CALL(dnnl_memory_desc_create_with_tag)
#define dnnl_memory_desc_destroy PLIMSOLL_CALL(dnnl_memory_desc_destroy)
#define dnnl_memory_desc_equal PLIMSOLL_CALL(dnnl_memory_desc_equal)
#define dnnl_memory_desc_get_size PLIMSOLL_CALL(dnnl_memory_desc_get_size)
#define dnnl_memory_desc_get_size_v2 PLIMSOLL_CALL(dnnl_memory_desc_get_size_v2)
#define dnnl_memory_desc_query PLIMSOLL_CALL(dnnl_memory_desc_query)
#define dnnl_memory_desc_query_v2 PLIMSOLL_CALL(dnnl_memory_desc_query_v2)
#define dnnl_memory_destroy PLIMSOLL_CALL(dnnl_memory_destroy)
#define dnnl_memory_set_data_handle PLIMSOLL_CALL(dnnl_memory_set_data_handle)
#define dnnl_post_ops_append_eltwise PLIMSOLL_CALL(dnnl_post_ops_append_eltwise)
#define dnnl_post_ops_append_sum PLIMSOLL_CALL(dnnl_post_ops_append_sum)
#define dnnl_post_ops_create PLIMSOLL_CALL(dnnl_post_ops_create)
#define dnnl_post_ops_destroy PLIMSOLL_CALL(dnnl_post_ops_destroy)
#define dnnl_primitive_attr_create PLIMSOLL_CALL(dnnl_primitive_attr_create)
#define dnnl_primitive_attr_destroy PLIMSOLL_CALL(dnnl_primitive_attr_destroy)
#define dnnl_primitive_attr_set_post_ops PLIMSOLL_CALL(dnnl_primitive_attr_set_post_ops)
#define dnnl_primitive_attr_set_scratchpad_mode \
  PLIMSOLL_CALL(dnnl_primitive_attr_set_scratchpad_mode)
#define dnnl_primitive_create PLIMSOLL_CALL(dnnl_primitive_create)
#define dnnl_primitive_desc_destroy PLIMSOLL_CALL(dnnl_primitive_desc_destroy)
#define dnnl_primitive_desc_next_impl PLIMSOLL_CALL(dnnl_primitive_desc_next_impl)
#define dnnl_primitive_desc_query PLIMSOLL_CALL(dnnl_primitive_desc_query)
#define dnnl_primitive_desc_query_md PLIMSOLL_CALL(dnnl_primitive_desc_query_md)
#define dnnl_primitive_destroy PLIMSOLL_CALL(dnnl_primitive_destroy)
#define dnnl_primitive_execute PLIMSOLL_CALL(dnnl_primitive_execute)
#define dnnl_set_max_cpu_isa PLIMSOLL_CALL(dnnl_set_max_cpu_isa)
#define dnnl_set_primitive_cache_capacity PLIMSOLL_CALL(dnnl_set_primitive_cache_capacity)
#define dnnl_sgemm PLIMSOLL_CALL(dnnl_sgemm)
#define dnnl_stream_create PLIMSOLL_CALL(dnnl_stream_create)
#define dnnl_stream_destroy PLIMSOLL_CALL(dnnl_stream_destroy)
#define dnnl_version PLIMSOLL_CALL(dnnl_version)

#define dnnl plimsoll_dnnl
#include <dnnl.hpp>
#undef dnnl

namespace plimsoll::backend::onednn {
namespace dnnl = ::plimsoll_dnnl;
}  // namespace plimsoll::backend::onednn
