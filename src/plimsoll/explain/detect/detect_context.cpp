// What stands around a failure: banners, settings, Python frames, progress, advice already
// followed.

#include <algorithm>
#include <utility>

#include "explain/detect/facts.h"
#include "explain/detect/package_path.h"
#include "explain/read/cursor.h"
#include "explain/read/number.h"

namespace plimsoll::explain {
namespace {

constexpr size_t npos = std::string::npos;

struct Mark {
  std::string_view text;
  std::string_view framework;
};

constexpr Mark kFrameworks[] = {
    {"use_backend(\"jax\")", "jax"},
    {"keras_backend=jax", "jax"},
    {"backend/jax/", "jax"},
    {"keras_backend=torch", "pytorch"},
    {"backend/torch/", "pytorch"},
    {"xlaruntimeerror", "jax"},
    {"jaxlib", "jax"},
    {"import jax", "jax"},
    {"compiler/xla/python", "jax"},
    {"xla/pjrt", "jax"},
    {"import torch", "pytorch"},
    {"torch.", "pytorch"},
    {"pytorch", "pytorch"},
    {"paddle", "paddle"},
    {"numba.cuda.cudadrv", "numba"},
    {"tensorflow", "tensorflow"},
    {"keras", "tensorflow"},
};

struct Setting {
  std::string_view text;
  bool Context::*flag;
  size_t Context::*at;
};

constexpr Setting kSettings[] = {
    {"physical devices cannot be modified after being initialized", &Context::growth_late,
     &Context::growth_late_at},
    {"virtual devices cannot be modified after being initialized", &Context::growth_late,
     &Context::growth_late_at},
    {"jit_compile=true", &Context::xla_on, &Context::xla_at},
    {"tf_xla_flags", &Context::xla_on, &Context::xla_at},
    {"set_jit(true)", &Context::xla_on, &Context::xla_at},
    {"separableconv", &Context::separable, &Context::separable_at},
    {"prune_low_magnitude", &Context::pruning, &Context::pruning_at},
    {"tfliteconverter", &Context::quantization, &Context::quantization_at},
    {"post-training quant", &Context::quantization, &Context::quantization_at},
    {"has no attribute 'resourceexhaustederror'", &Context::keras_exception,
     &Context::keras_exception_at},
    {"tf.keras.resourceexhaustederror", &Context::keras_exception, &Context::keras_exception_at},
    {"keras.errors.resourceexhausted", &Context::keras_exception, &Context::keras_exception_at},
    {"alloc_conf=expandable_segments", &Context::expandable, &Context::expandable_at},
    {"filling up shuffle buffer", &Context::shuffle_buffer, &Context::shuffle_at},
    {"did not fully read the dataset being cached", &Context::cache_dataset, &Context::cache_at},
    {"triggered tf.function retracing", &Context::retracing, &Context::retracing_at},
};

void detect_settings(const Document& document, Context& context) {
  for (const Setting& setting : kSettings) {
    const size_t at = document.find(setting.text);
    if (at == npos) continue;
    // The hint that PyTorch prints in every message is no setting of the user.
    if (setting.flag == &Context::expandable &&
        document.find("try setting", at > 80 ? at - 80 : 0, at) != npos) {
      continue;
    }
    context.*setting.flag = true;
    context.*setting.at = at;
  }
  for (std::string_view phrase : {"set_memory_growth(", "allow_growth = true", "allow_growth=true",
                                  "tf_force_gpu_allow_growth=true"}) {
    context.growth_on = context.growth_on || document.find(phrase) != npos;
  }
  constexpr std::string_view kAsync = "tf_gpu_allocator=cuda_malloc_async";
  for (size_t at = document.find(kAsync); at != npos; at = document.find(kAsync, at + 1)) {
    if (document.find_back("environment variable", at, 30) != npos) continue;  // the hint
    context.async_allocator = true;
    context.async_at = at;
    break;
  }
  context.windows_paths = document.find("\\site-packages\\") != npos ||
                          document.find("..\\c10\\") != npos || document.find("c:\\") != npos;
}

void detect_framework(const Document& document, Context& context) {
  for (const Mark& mark : kFrameworks) {
    if (find_framework_words(document, mark.text) == npos) continue;
    context.framework = mark.framework;
    return;
  }
}

// Created [TensorFlow ]device (/job:…/device:GPU:0 with 67 MB memory) -> …
void detect_banners(const Document& document, Context& context) {
  for (std::string_view phrase : {"created tensorflow device (", "created device "}) {
    const size_t at = document.find(phrase);
    if (at == npos) continue;
    Cursor cursor(document, document.match(phrase, at));
    cursor.literal("(");
    context.created_device = cursor.until(" ");
    if (!cursor.literal(" with ")) continue;
    context.created_mib = cursor.integer();
    if (context.created_mib > (int64_t{1} << 30)) context.created_mib.reset();
    context.created_at = at;
    break;
  }
  // "totalMemory: 6.00GiB freeMemory: 4.89GiB", in older versions with blanks and in lines of their
  // own
  for (const auto& [free, total] :
       {std::pair("freememory: ", "totalmemory: "), std::pair("free memory: ", "total memory: ")}) {
    const size_t at = document.find(free);
    if (at == npos || context.banner_free) continue;
    Cursor cursor(document, document.match(free, at));
    if (const std::optional<Size> size = cursor.size()) context.banner_free = size->bytes;
    context.banner_at = at;
    if (const size_t before = document.find_back(total, at, 300); before != npos) {
      Cursor value(document, document.match(total, before));
      if (const std::optional<Size> size = value.size()) context.banner_total = size->bytes;
    }
  }
  // "613MiB / 12282MiB"
  constexpr std::string_view kOf = "mib / ";
  if (const size_t of = document.find(kOf); of != npos) {
    size_t begin = of;
    while (begin > 0 && is_digit(document.text()[begin - 1])) --begin;
    Cursor used(document, begin);
    Cursor size(document, document.match(kOf, of));
    const std::optional<Size> in_use = used.size();
    const std::optional<Size> whole = size.size();
    if (in_use && whole && in_use->bytes <= whole->bytes) {
      context.device_used = in_use->bytes;
      context.device_size = whole->bytes;
      context.device_at = of;
    }
  }
  constexpr std::string_view kNothing = "memory allocated: 0";
  if (const size_t at = document.find(kNothing); at != npos) {
    const size_t end = document.match(kNothing, at);
    const char next = end < document.text().size() ? document.text()[end] : '\n';
    context.nothing_allocated = !is_digit(next) && next != '.';
    context.nothing_at = at;
  }
  for (std::string_view phrase : {"batch_size", "batch-size", "batch size"}) {
    for (size_t at = document.find(phrase); at != npos && !context.batch_size;
         at = document.find(phrase, at + 1)) {
      Cursor cursor(document, document.match(phrase, at));
      for (int gap = 0; gap < 3 && (cursor.peek() == '=' || cursor.peek() == ':' ||
                                    cursor.peek() == ' ' || cursor.peek() == '\'');
           ++gap) {
        cursor.move_to(cursor.at() + 1);
      }
      const std::optional<int64_t> value = cursor.integer();
      if (!value || *value <= 0 || *value > 1000000) continue;
      context.batch_size = value;
      context.batch_at = at;
    }
  }
}

}  // namespace

void detect_context(const Document& document, Facts& facts) {
  Context& context = facts.context;
  detect_framework(document, context);
  detect_banners(document, context);
  detect_settings(document, context);
  detect_frames(document, facts);
  detect_progress(document, facts);
}

}  // namespace plimsoll::explain
