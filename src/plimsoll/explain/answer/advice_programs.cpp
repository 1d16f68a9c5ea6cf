// Advice for programs that do not train networks, or whose memory is set by options of their own:
// servers of language models, trees on a GPU, inference engines, data frames.

#include <array>
#include <string_view>

#include "explain/answer/advice_impl.h"

namespace plimsoll::explain {
namespace {

struct Piece {
  std::string_view action;
  std::string_view arithmetic;
  std::string_view code;
};

struct KnownProgram {
  std::array<std::string_view, 3> marks;  // one of them stands in the log; lower case
  std::array<std::string_view, 2> reasons;
  std::array<Piece, 3> advice;
};

constexpr KnownProgram kPrograms[] = {
    {{"ggml", "llama_model_load", "llama runner"},
     {"weights, the context's cache and compute buffers are more than the device has free",
      "another program on the same device"},
     {{{"Put fewer of the model's layers on the device.",
        "each layer left on the host frees its share of the model file's size",
        "-ngl N   (fewer than now)"},
       {"A shorter context, or a cache of fewer bits.",
        "the cache grows with the context: half of it, half the cache",
        "-c N -ctk q8_0 -ctv q8_0 -fa on"},
       {"A model file with fewer bits per weight.",
        "weights on the device are as large as the file", ""}}}},
    {{"vllm", "gpu_memory_utilization", "kv cache"},
     {"weights and the profiling run leave nothing of the server's share for its cache",
      "another program on the same device"},
     {{{"A larger part of the device for the server, and shorter longest sequences.",
        "cache = utilization x capacity - weights - activations",
        "--gpu-memory-utilization, --max-model-len N"},
       {"Weights over several devices.", "weights per device = weights / devices",
        "--tensor-parallel-size 2"},
       {"Or a quantized model.", "4 bits: a quarter of 16", "--quantization awq"}}}},
    {{"xgboost", "gpu_hist", "updater_gpu"},
     {"the quantized data set, its sketch and the trees' histograms together",
      "another program on the same device"},
     {{{"Quantize on the way in instead of from a second copy.",
        "about 1 byte per value instead of 4 to 8", "xgb.QuantileDMatrix(x, y, max_bin=256)"},
       {"Fewer bins or shallower trees.", "histograms = nodes x features x bins x 16 bytes",
        "{\"max_bin\": 64, \"max_depth\": 6}"},
       {"Sample rows for each tree.", "",
        "{\"subsample\": 0.3, \"sampling_method\": \"gradient_based\"}"}}}},
    {{"lightgbm", "lgbm", ""},
     {"the binned data set and the histograms of all leaves", "another program on the same device"},
     {{{"Fewer bins and single precision.", "histograms = leaves x features x bins",
        "{\"max_bin\": 63, \"gpu_use_dp\": False, \"num_leaves\": 31}"},
       {"Or train on the CPU: the trees are the same kind.", "", "{\"device\": \"cpu\"}"},
       {}}}},
    {{"catboost", "", ""},
     {"the data set, its borders and combinations of categories", "another program on the device"},
     {{{"Fewer borders, fewer combinations of categories.", "",
        "CatBoostClassifier(task_type=\"GPU\", border_count=32, max_ctr_complexity=1)"},
       {"Set what part of the device it may take.", "0.95 of what is free is the default",
        "gpu_ram_part=0.8"},
       {}}}},
    {{"onnxruntime", "", ""},
     {"activations of the batch that was handed in, and an arena that grows by doubling",
      "another program or session on the same device"},
     {{{"Smaller batches or inputs per call.", "activations grow with both", ""},
       {"Let the arena grow by what is asked for instead of doubling.",
        "doubling holds up to twice of what is used",
        "providers=[(\"CUDAExecutionProvider\", {\"arena_extend_strategy\": "
        "\"kSameAsRequested\"})]"},
       {"One session per model and process; each has an arena.", "", ""}}}},
    {{"[trt]", "tensorrt", "defaultallocator"},
     {"the work space of the builder, or activations of the profile's largest batch",
      "another program on the same device"},
     {{{"Limit the builder's work space.", "",
        "config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)"},
       {"A smaller largest batch or input in the profile.", "activations grow with both",
        "profile.set_shape(name, min, opt, max)"},
       {}}}},
    {{"cupy", "rmm/", "cudf"},
     {"arrays that are still referenced, and blocks that the pool keeps",
      "another program on the same device"},
     {{{"Drop references, then let the pool give its idle blocks back.", "",
        "del x; cupy.get_default_memory_pool().free_all_blocks()"},
       {"Work on the data in parts.", "", "for part in numpy.array_split(x, 8): ..."},
       {"Let arrays spill to the host, slower.", "", "rmm.reinitialize(managed_memory=True)"}}}},
    {{"darknet", "", ""},
     {"the activations of batch / subdivisions images", "another program on the same device"},
     {{{"More subdivisions: the same batch in smaller parts.",
        "images at once = batch / subdivisions", "subdivisions=64"},
       {"A smaller network input.", "memory grows with width x height", "width=416 height=416"},
       {}}}},
};

const KnownProgram* program_of(const Case& found) {
  for (const KnownProgram& program : kPrograms) {
    for (std::string_view mark : program.marks) {
      if (!mark.empty() && found.document.find(mark) != std::string::npos) return &program;
    }
  }
  return nullptr;
}

}  // namespace

bool advise_program(const Case& found, Explanation& explanation) {
  if (found.main.family != Family::kOtherGpu) return false;
  const KnownProgram* program = program_of(found);
  if (program == nullptr) return false;
  if (explanation.cause_label == Cause::kUnknown) {
    explanation.usual_reasons.assign(program->reasons.begin(), program->reasons.end());
  }
  for (const Piece& piece : program->advice) {
    if (piece.action.empty()) continue;
    add_advice(explanation, std::string(piece.action), std::string(piece.arithmetic),
               std::string(piece.code));
  }
  return true;
}

}  // namespace plimsoll::explain
