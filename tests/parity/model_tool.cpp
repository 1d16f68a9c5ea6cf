// What the parity tests need of model files without a backend.
//
//   plimsoll_model_tool convert IN OUT    loads IN and saves it as OUT, weights and training state
//                                         included
//   plimsoll_model_tool check FILE…       one line per file: "ok" or the kind and reason of refusal
//   plimsoll_model_tool survey            the same for lines of standard input: FILE, and after
//                                         tabs a file of weights and input shapes (3x4;5), each
//                                         perhaps empty; every tensor is read
//   plimsoll_model_tool tensors FILE      one line per tensor: name, dtype, shape, CRC-32
//   plimsoll_model_tool layers            names of the layers that can be read

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "codec/inflate.h"
#include "formats/model_file.h"
#include "layers/model/layer.h"

namespace {

using plimsoll::Error;
using plimsoll::TensorInfo;
using plimsoll::TensorSource;
using plimsoll::formats::LoadedModel;
using plimsoll::formats::LoadOptions;

class NoTensors final : public TensorSource {
 public:
  std::span<const TensorInfo> tensors() const override { return {}; }
  void read(size_t, int64_t, std::span<std::byte>) override {}
};

int convert(const std::string& in, const std::string& out) {
  LoadedModel loaded = plimsoll::formats::load_model(in);
  NoTensors none;
  TensorSource& state = loaded.weights ? *loaded.weights : static_cast<TensorSource&>(none);
  plimsoll::formats::save_model(out, loaded.model, loaded.compile ? &*loaded.compile : nullptr,
                                state);
  return 0;
}

std::vector<std::byte> read_tensor(TensorSource& source, size_t index) {
  const TensorInfo& info = source.tensors()[index];
  const plimsoll::Shape shape = plimsoll::fixed_shape(info.shape);
  std::vector<std::byte> bytes(plimsoll::tensor_bytes(info.dtype, shape, 1).size());
  source.read(index, 0, bytes);
  return bytes;
}

// "ok", or why not; on one line.
void report(const std::string& file, const LoadOptions& options, bool read_weights) {
  std::string answer;
  try {
    const LoadedModel loaded = plimsoll::formats::load_model(file, options);
    for (size_t i = 0; read_weights && loaded.weights && i < loaded.weights->tensors().size();
         ++i) {
      read_tensor(*loaded.weights, i);
    }
    answer = "ok";
  } catch (const Error& error) {
    answer = std::string(to_string(error.kind())) + ": " + error.message();
  }
  for (char& c : answer) c = c == '\n' ? ' ' : c;
  std::printf("%s\n", answer.c_str());
}

int check(const std::vector<std::string>& files) {
  for (const std::string& file : files) report(file, {}, false);
  return 0;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

int survey() {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words = split(line, '\t');
    words.resize(3);
    LoadOptions options;
    options.weights = words[1];
    for (const std::string& shape : split(words[2], ';')) {
      std::vector<int64_t>& sizes = options.input_shapes.emplace_back();
      for (const std::string& size : split(shape, 'x')) sizes.push_back(std::stoll(size));
    }
    report(words[0], options, true);
    std::fflush(stdout);
  }
  return 0;
}

int tensors(const std::string& file) {
  const LoadedModel loaded = plimsoll::formats::load_model(file);
  for (size_t i = 0; loaded.weights && i < loaded.weights->tensors().size(); ++i) {
    const TensorInfo& info = loaded.weights->tensors()[i];
    const std::vector<std::byte> bytes = read_tensor(*loaded.weights, i);
    std::printf("%s %s %s %08x\n", info.name.c_str(), std::string(to_string(info.dtype)).c_str(),
                to_string(plimsoll::fixed_shape(info.shape)).c_str(),
                plimsoll::codec::update_crc32(0, bytes));
  }
  return 0;
}

int layers() {
  for (const std::string& name : plimsoll::layers::layer_class_names()) {
    std::printf("%s\n", name.c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 3 && words[0] == "convert") return convert(words[1], words[2]);
    if (words.size() >= 2 && words[0] == "check") return check({words.begin() + 1, words.end()});
    if (words.size() == 1 && words[0] == "survey") return survey();
    if (words.size() == 2 && words[0] == "tensors") return tensors(words[1]);
    if (words.size() == 1 && words[0] == "layers") return layers();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::fputs("convert IN OUT | check FILE… | survey | tensors FILE | layers\n", stderr);
  return 2;
}
