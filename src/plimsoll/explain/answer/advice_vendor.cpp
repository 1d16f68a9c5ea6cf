#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "explain/answer/advice_impl.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {

Vendor vendor_of(const Case& found) {
  // At the beginning of a word: "output" names no TPU.
  const std::string& text = found.document.text();
  const auto says = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
      for (size_t at = found.document.find(word); at != std::string::npos;
           at = found.document.find(word, at + 1)) {
        if (at == 0 || !is_alpha(text[at - 1])) return true;
      }
      return false;
    });
  };
  if (says({"hip out of memory", "rocm", "hip error", "hsa_status", "rocdevice", "hip_error",
            "rocblas", "miopen", "memory access fault by gpu", "hiperror"})) {
    return Vendor::kAmd;
  }
  if (says({"xpu", "level_zero", "oneapi", "ur_result", "sycl", "pi_error", "itex"})) {
    return Vendor::kIntel;
  }
  if (found.main.family == Family::kTorchMps || found.framework == "mlx" ||
      says({"[metal", "metal buffer", "mtlbuffer", "ggml_metal", "iogpu", "iogpucommandbuffer"})) {
    return Vendor::kApple;
  }
  if (says({"vulkan", "hbm", "tpu", "npu out of memory", "dml", "opencl"})) return Vendor::kOther;
  return Vendor::kNvidia;
}

void look_at_users(const Case& found, Explanation& explanation) {
  const std::string others = explanation.amounts.others ? size_words(explanation.amounts.others) +
                                                              " are neither free nor this process's"
                                                        : "";
  std::string code;
  switch (vendor_of(found)) {
    case Vendor::kNvidia:
      code = "nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv";
      break;
    case Vendor::kAmd:
      code = "rocm-smi --showpids --showmeminfo vram";
      break;
    case Vendor::kIntel:
      code = "xpu-smi ps";
      break;
    case Vendor::kApple:
    case Vendor::kOther:
      break;
  }
  add_advice(explanation,
             "Before the next start, look who is on the device, from the host rather than from "
             "inside a container, and end what is left over (old notebook kernels first).",
             others, code);
}

}  // namespace plimsoll::explain
