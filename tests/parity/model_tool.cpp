// What the parity tests need of model files without a backend.
//
//   plimsoll_model_tool convert IN OUT    loads IN and saves it as OUT, weights and training state
//                                         included
//   plimsoll_model_tool check FILE…       one line per file: "ok" or the kind and reason of refusal
//   plimsoll_model_tool tensors FILE      one line per tensor: name, dtype, shape, CRC-32

#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "codec/inflate.h"
#include "formats/model_file.h"

namespace {

using plimsoll::Error;
using plimsoll::TensorInfo;
using plimsoll::TensorSource;

class NoTensors final : public TensorSource {
 public:
  std::span<const TensorInfo> tensors() const override { return {}; }
  void read(size_t, int64_t, std::span<std::byte>) override {}
};

int convert(const std::string& in, const std::string& out) {
  plimsoll::formats::LoadedModel loaded = plimsoll::formats::load_model(in);
  NoTensors none;
  TensorSource& state = loaded.weights ? *loaded.weights : static_cast<TensorSource&>(none);
  plimsoll::formats::save_model(out, loaded.model, loaded.compile ? &*loaded.compile : nullptr,
                                state);
  return 0;
}

int check(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    try {
      const plimsoll::formats::LoadedModel loaded = plimsoll::formats::load_model(file);
      std::printf("ok\n");
    } catch (const Error& error) {
      std::printf("%s: %s\n", std::string(to_string(error.kind())).c_str(),
                  error.message().c_str());
    }
  }
  return 0;
}

int tensors(const std::string& file) {
  const plimsoll::formats::LoadedModel loaded = plimsoll::formats::load_model(file);
  for (size_t i = 0; loaded.weights && i < loaded.weights->tensors().size(); ++i) {
    const TensorInfo& info = loaded.weights->tensors()[i];
    const plimsoll::Shape shape = plimsoll::fixed_shape(info.shape);
    std::vector<std::byte> bytes(plimsoll::tensor_bytes(info.dtype, shape, 1).size());
    loaded.weights->read(i, 0, bytes);
    std::printf("%s %s %s %08x\n", info.name.c_str(), std::string(to_string(info.dtype)).c_str(),
                to_string(shape).c_str(), plimsoll::codec::update_crc32(0, bytes));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 3 && words[0] == "convert") return convert(words[1], words[2]);
    if (words.size() >= 2 && words[0] == "check") return check({words.begin() + 1, words.end()});
    if (words.size() == 2 && words[0] == "tensors") return tensors(words[1]);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::fputs("convert IN OUT | check FILE… | tensors FILE\n", stderr);
  return 2;
}
