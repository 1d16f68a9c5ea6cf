#include "explain/forms.h"

namespace plimsoll::explain {
namespace {

using enum Family;
constexpr Resource kGpu = Resource::kGpuMemory;

constexpr Form kForms[] = {
    // CUDA's own names, whoever prints them
    {"cudaerrormemoryallocation", kOtherGpu, kGpu, "", "", "requested memory: ", ""},
    {"cuda failure 2", kOtherGpu, kGpu, "", "", "", "out of memory"},
    {"cuda error 2: out of memory", kOtherGpu, kGpu, "", "", "", ""},
    {"cuda error(2), out of memory", kOtherGpu, kGpu, "paddle", "", "", ""},
    {"cuda: out of memory", kOtherGpu, kGpu, "", "", "", ""},
    {"cuda runtime (out of memory)", kOtherGpu, kGpu, "", "", "amount of gpu memory (", ""},
    {"cudamalloc error out of memory", kOtherGpu, kGpu, "", "", "space device stream 0x0 size ",
     ""},
    {"cudamalloc retry failed: out of memory", kOtherGpu, kGpu, "mxnet", "", "", ""},
    {"cumemalloc failed: out of memory", kOtherGpu, kGpu, "", "", "", ""},
    {"context_gpu", kOtherGpu, kGpu, "pytorch", "", "", "out of memory"},
    {"failed to cuda calloc", kNccl, kGpu, "", "", "calloc async ", ""},
    {"failed to cuda host alloc", kTfPinnedHost, Resource::kHostMemory, "", "pinned", "", ""},
    {"cuda failure 'out of memory'", kNccl, kGpu, "", "", "", ""},
    {"last error: cuda failure 2 'out of memory'", kNccl, kGpu, "", "", "", ""},
    {"[hint: 'cublas_status_alloc_failed'", kCudnnInit, kGpu, "paddle", "cublas", "", ""},
    {"dnn library initialization failed", kCudnnInit, kGpu, "jax", "cudnn", "", ""},
    {"unable to find a valid cudnn algorithm", kCudnnInit, kGpu, "pytorch", "workspace", "", ""},
    {"unable to find an engine to execute this computation", kCudnnInit, kGpu, "pytorch",
     "workspace", "", ""},
    {"curand_status_allocation_failed", kCudnnInit, kGpu, "", "", "", ""},
    {"cufft_alloc_failed", kCudnnInit, kGpu, "", "", "", ""},
    {"cusparse_status_alloc_failed", kCudnnInit, kGpu, "", "", "", ""},
    {"insufficient resources when calling `cusparse", kCudnnInit, kGpu, "", "", "", ""},
    // Other vendors
    {"exceeded max size of memory object allocation", kOtherGpu, kGpu, "openvino", "buffer",
     "requested ", ""},
    {"cl_out_of_resources", kOtherGpu, kGpu, "", "", "", ""},
    {"out of gpu resources", kOtherGpu, kGpu, "openvino", "", "", ""},
    {"hsa_status_error_out_of_resources", kOtherGpu, kGpu, "", "", "", ""},
    {"failed to allocate private mtlbuffer", kOtherGpu, kGpu, "", "buffer", "mtlbuffer for size ",
     ""},
    {"nvmapmemalloc", kOtherGpu, kGpu, "", "", "nvmapmemallocinternaltagged: ", "error 12"},
    {"8007000e", kOtherGpu, kGpu, "", "", "", "dml"},
    {"hiperroroutofmemory", kTorchHip, kGpu, "", "", "", ""},
    {"error_out_of_device_memory", kOtherGpu, kGpu, "", "", "", ""},
    {"pi_error_out_of_resources", kOtherGpu, kGpu, "", "", "", ""},
    {"erroroutofdevicememory", kOtherGpu, kGpu, "", "", "device memory allocation of size ", ""},
    {"mem_object_allocation_failure", kOtherGpu, kGpu, "", "", "", ""},
    {"memory object allocation failure", kOtherGpu, kGpu, "", "", "", ""},
    {"invalid buffer size: ", kTorchMps, kGpu, "pytorch", "buffer", "invalid buffer size: ", ""},
    {"greater than the maximum allowed buffer size", kOtherGpu, kGpu, "mlx", "buffer",
     "attempting to allocate ", ""},
    {"commandbuffercallbackerroroutofmemory", kOtherGpu, kGpu, "", "", "", ""},
    {"memory not available to allocate buffer: ", kOtherGpu, kGpu, "", "",
     "memory not available to allocate buffer: ", ""},
    {"failed to allocate metal buffer", kOtherGpu, kGpu, "", "", "metal buffer of ", ""},
    {"pt_devmem allocation failed", kOtherGpu, kGpu, "pytorch", "",
     "allocation failed for size::", ""},
    {"npuworkspaceallocator tried to allocate", kTorchNpu, kGpu, "pytorch", "",
     "tried to allocate ", ""},
    {"mlu out of memory", kTorchNpu, kGpu, "pytorch", "", "tried to allocate ", ""},
    {"el0004", kOtherGpu, kGpu, "", "", "", "failed to allocate memory"},
    {"not enough gpu video memory available", kOtherGpu, kGpu, "pytorch", "", "tensor with ", ""},
    {"out of gpu memory trying to allocate ", kOtherGpu, kGpu, "julia", "",
     "out of gpu memory trying to allocate ", ""},
    {"maximum pool size exceeded", kOtherGpu, kGpu, "", "", "failed to allocate ", "rmm"},
    {"thrust::system", kOtherGpu, kGpu, "", "", "", "bad_alloc"},
    // Programs
    {"for new constant", kJaxOomLine, kGpu, "jax", "", "failed to allocate ",
     "failed to allocate "},
    {"llama_kv_cache_init: failed to allocate buffer", kOtherGpu, kGpu, "", "", "", ""},
    {"failed to allocate cuda", kOtherGpu, kGpu, "", "", "buffer of size ", "buffer of size"},
    {"tokens that can be stored in kv cache", kOtherGpu, kGpu, "vllm", "kv_cache", "", ""},
    {"larger than the available kv cache memory", kOtherGpu, kGpu, "vllm", "kv_cache", "), (", ""},
    {"less than desired gpu memory utilization", kOtherGpu, kGpu, "vllm", "startup", "", ""},
    {"\xe6\x98\xbe\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3", kOtherGpu, kGpu, "", "", "", ""},
    {"gpu", kPaddle, kGpu, "paddle", "", "\xe4\xb8\x8a\xe5\x88\x86\xe9\x85\x8d",
     "\xe5\x87\xba\xe7\x8e\xb0\xe5\x86\x85\xe5\xad\x98\xe4\xb8\x8d\xe8\xb6\xb3"},
    {"enough gpu ram to fit the quantized model", kOtherGpu, kGpu, "pytorch", "model", "", ""},
    {"not enough memory to handle ", kOtherGpu, kGpu, "", "kv_cache", "", "prefill tokens"},
    {"outofmemoryerror: allocation on device", kTorchPlain, kGpu, "pytorch", "", "", ""},
    {"check failed: error == cudasuccess (2 vs. 0)", kOtherGpu, kGpu, "", "", "", ""},
    {"[cuda] out of memory", kOtherGpu, kGpu, "", "", "", "lightgbm"},
    {"gpuassert: out of memory", kOtherGpu, kGpu, "", "", "", ""},
    {"cuda runtime error in ", kOtherGpu, kGpu, "", "", "", "out of memory"},
    {"error code 2: outofmemory", kOtherGpu, kGpu, "", "", "", ""},
    {"out of memory on device", kOtherGpu, kGpu, "", "", "", "gpudevice"},
    {"cuda_error_out_of_memory", kTorchPlain, kGpu, "", "driver", "", ""},
};

}  // namespace

std::span<const Form> device_forms() { return kForms; }

}  // namespace plimsoll::explain
