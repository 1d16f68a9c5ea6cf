// Any bytes as a file of data: the first one says which ending the file's name has and how its
// values are read, the second which columns are taken. Arrays (.npy, .npz, IDX, HDF5), tables,
// texts and records are opened and their first rows read; where a bit says so, those of several
// inputs and outputs by their names, where two say so, as strings that a model looks up. Records
// are framed here where a bit says so, one or two halves of the bytes, since no fuzzer guesses a
// checksum. Rows of a source that counts more memory than tools/fuzz.py allows are not read: a run
// with that limit ends before its first row.

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.h"
#include "codec/hdf5/hdf5_reader.h"
#include "codec/tf_record.h"
#include "data/dataset.h"
#include "fuzz/fuzz_input.h"

namespace {

using namespace plimsoll;

void read_rows(data::RowSource& source) {
  constexpr Bytes kMostCounted = 60_MiB;
  constexpr int64_t kMostElements = 1 << 16;
  if (source.resident_bytes() > kMostCounted) return;
  int64_t elements = 1;
  for (const int64_t extent : source.row_shape()) elements *= extent;
  if (elements < 1 || elements > kMostElements) return;
  std::vector<float> row(static_cast<size_t>(elements));
  const int64_t rows = std::min<int64_t>(source.row_count(), 8);
  for (int64_t i = 0; i < rows; ++i) source.read(i, 1, DType::kFloat32, row.data());
  if (source.row_count() > rows) {
    source.read(source.row_count() - 1, 1, DType::kFloat32, row.data());
  }
}

void choose_columns(uint8_t bits, data::DatasetOptions& options) {
  if ((bits & 1) != 0) options.columns = "a,n";
  if ((bits & 2) != 0) options.label_column = "label";
  if ((bits & 4) != 0) options.label_column = "values_block_1[1]";
  if ((bits & 8) != 0) options.labels_wanted = false;
  if ((bits & 16) != 0) options.categories = "index";
  if ((bits & 64) != 0) options.header = "yes";
  if ((bits & 128) != 0) options.header = "no";
}

// A model of one input of two words or one text.
data::Port looked_up(bool text) {
  auto lookup = std::make_shared<InputLookup>();
  lookup->layer = "words";
  for (const char* word : {"a", "x", "to be", "be"}) lookup->words.add(word);
  lookup->input_shape = lookup->output_shape = {2};
  if (text) {
    lookup->kind = InputLookup::Kind::kText;
    lookup->encoding = InputLookup::Encoding::kTfIdf;
    lookup->weights = {0.5F, 1, 2, 3, 4};
    lookup->ngrams = {1, 2};
    lookup->input_shape = {};
    lookup->output_shape = {5};
    lookup->depth = 5;
  }
  return {.name = "x", .sample_shape = lookup->output_shape, .lookup = lookup};
}

// Strings are all read as they are opened: a few bytes of a file may stand for millions of them.
bool has_many_strings(const std::string& path) {
  constexpr int64_t kMostStrings = 1 << 18;
  const auto file = codec::open_reader(path);
  if (!codec::looks_like_hdf5(*file)) return false;
  const codec::Hdf5Reader reader(file);
  return reader.is_dataset("x") && reader.open("x")->info().element_count > kMostStrings;
}

void open_and_read(const std::string& path, uint8_t bits, bool by_name, uint8_t columns) {
  data::DatasetOptions options;
  choose_columns(columns, options);
  if (by_name) {
    options.inputs = {{"x"}, {"left"}};
    options.outputs = {{"y"}, {"right"}};
  }
  constexpr uint8_t kLookedUp = 64 | 128;
  if ((columns & kLookedUp) == kLookedUp) {
    if (has_many_strings(path)) return;
    options.inputs = {looked_up((bits & 4) != 0)};
  }
  options.data = path;
  options.spill_directory = "/var/tmp";
  options.standardize = (bits & 1) != 0;
  if ((bits & 2) != 0) options.fill = "mean";
  if ((bits & 4) != 0) options.text = "words";
  options.window = (bits & 8) != 0 ? 3 : 0;
  options.sample_shape = {4, 4, 3};  // for images in records
  const data::Dataset dataset = data::open_dataset(options);
  for (const auto* sources : {&dataset.features, &dataset.targets, &dataset.weights}) {
    for (const auto& source : *sources) read_rows(*source);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr std::array<const char*, 8> kEndings = {".npy",  ".npz",      ".csv", ".txt",
                                                          ".idx3", ".tfrecord", ".h5",  ".gz"};
  if (size < 2) return 0;
  const std::string path = "/dev/shm/plimsoll_data_fuzz_" + std::to_string(getpid()) +
                           kEndings[data[0] % kEndings.size()];
  {
    File file = File::create(path);
    const auto bytes = fuzz::bytes_of(data + 2, size - 2);
    if (path.ends_with(".tfrecord") && (data[0] & 0x10) != 0) {
      const size_t first = (data[1] & 32) != 0 ? bytes.size() / 2 : bytes.size();
      const auto record = codec::tf_record_frame(bytes.first(first));
      file.write_at(0, record);
      if (first < bytes.size()) {
        file.write_at(std::ssize(record), codec::tf_record_frame(bytes.subspan(first)));
      }
    } else {
      file.write_at(0, bytes);
    }
  }
  try {
    open_and_read(path, data[0] >> 4, (data[0] & 8) != 0, data[1]);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) std::abort();
  }
  unlink(path.c_str());
  return 0;
}
