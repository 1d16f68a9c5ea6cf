#pragma once

// Features, targets and sample weights of one run, and the batches made of them.
//
// Batches are views: a permutation of rows (by epoch and seed, without a table where it can be
// computed) says which rows a batch holds, and fill() reads just the rows of the slice that is
// about to run. The same seed gives the same order at every limit, slice and thread count.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor_io.h"
#include "base/work_sharing.h"
#include "data/rows/dataset_options.h"
#include "data/rows/row_order.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

struct CsvSchema;
class SampleFolder;
struct Vocabulary;

struct Dataset {
  std::vector<std::shared_ptr<RowSource>> features;  // one per model input
  std::vector<std::shared_ptr<RowSource>> targets;   // one per model output; empty for predict
  std::vector<std::shared_ptr<RowSource>> weights;   // sample weights per output; may be empty

  std::string form;  // "CSV", "IDX", …
  bool sorted_by_class = false;
  Bytes file_bytes;  // of the features' file or files
  // What the columns of a table were found to be; null for other data.
  std::shared_ptr<const CsvSchema> csv{};
  // Names of classes by their number, of a folder of class folders; null for other data.
  std::shared_ptr<const std::vector<std::string>> classes{};
  // Tokens of a text by their number; null for other data.
  std::shared_ptr<const Vocabulary> vocabulary{};
  // A flat folder of images, which masks belong to by name; null for other data.
  std::shared_ptr<SampleFolder> images{};
  int64_t skipped = 0;               // damaged samples that were left out
  Bytes opening_peak{};              // the most that opening held, where that is much
  std::vector<std::string> notes{};  // of what was not done as asked, for the user
  // Where each input has a path of its own: what is known of each.
  std::vector<Dataset> parts{};
  // It was opened for a model that looks values up: they are looked up already.
  bool looked_up = false;
  // Features that were strings, beside those of a table, and are looked up as they were opened.
  std::vector<bool> were_strings{};
  Bytes tables{};  // vocabularies that none of the sources counts

  // What a shuffle is where the user names none: blocks beyond kFullShuffleBytes of data in one
  // file, full below. It depends on the data alone, so that a limit never changes the result.
  Shuffle usual_shuffle() const;
  static constexpr Bytes kFullShuffleBytes = 1_GiB;

  int64_t row_count() const;  // of the first; 0 where there is nothing
  Bytes resident_bytes() const;
  // So much of that is there since it was opened.
  Bytes opened_bytes() const;
  // What it holds once it is open: tables and dictionaries, and buffers as they are made.
  Bytes held_bytes() const;
  // Counts that a further source held so much while it was opened, beside what is open by then.
  void note_opening(Bytes peak) { opening_peak = max(opening_peak, held_bytes() + peak); }
  // Memory beyond these that is worth having: where all rows are shuffled, for small arrays to be
  // kept whole; else for reading the features ahead, in steps of so many samples, where the page
  // cache does not do as well. Less is of use too.
  Bytes wants_ahead(int64_t batch, Shuffle shuffle) const;
  // Grants them in place of what was granted before; none takes them back.
  void grant_ahead(Bytes bytes, int64_t batch, Shuffle shuffle);
  // Throws kData naming both files where two of them have different numbers of rows.
  void check_rows() const;
};

// Options name an .npz, an .npy, an IDX or a CSV file, or a path for each input and output; `like`,
// where given, is a data set whose categories and scale hold for this one (validation is like
// training). Sample weights are those of every output. Throws kConfig, kData or kIo naming the
// file.
Dataset open_dataset(const DatasetOptions& options, const Dataset* like = nullptr);

// `data` is an .npz, an .npy or an IDX file; `labels` and `weights` are files of their own, or
// empty. An .npz holds x, and optionally y and sample_weight; x_train and y_train (or x_test and
// y_test where those are absent) and NumPy's own arr_0 and arr_1 mean the same. Files named beside
// it take their places. Checks that row counts agree (kData).
Dataset open_dataset(const std::string& data, const std::string& labels, const std::string& weights,
                     const std::string& spill_directory);

// What a program wants of one of its inputs; in the order of the program's inputs.
struct InputBinding {
  enum class Role : uint8_t { kFeatures, kTarget, kSampleWeight };
  Role role = Role::kFeatures;
  int index = 0;     // which of the features, targets or weights
  std::string name;  // for messages
  DType dtype = DType::kFloat32;
  int64_t row_elements = 1;                // elements of one sample that the program expects
  int64_t class_count = 0;                 // labels must be in [0, class_count); 0: no bound
  std::optional<int64_t> ignored_class{};  // or this one
  // Elements [begin + i * step, end + i * step) of each row, i below `count`, name rows of a table,
  // 0 to row_count - 1 (fractions are cut off, as the model does).
  struct Bound {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t row_count = 0;
    std::string table{};
    int64_t step = 0;
    int64_t count = 1;
    friend bool operator==(const Bound&, const Bound&) = default;
  };
  std::vector<Bound> bounds{};
  // The shape of a sample as the model's input or the loss takes it, which features or labels must
  // have (data/sample_shape.h); none: only the number of elements counts.
  std::optional<std::vector<int64_t>> sample_shape{};
  friend bool operator==(const InputBinding&, const InputBinding&) = default;
};

// Throws kData where a shape or type is not the input's, as BatchSource does; what is missing is no
// matter yet.
void check_shapes(const Dataset& dataset, const std::vector<InputBinding>& inputs);

struct BatchOptions {
  int64_t batch = 32;
  Shuffle shuffle = Shuffle::kNone;
  uint64_t seed = 0;
  bool check_finite = false;  // NaN and infinity in the data are kData, naming the row
};

// Unshuffled rows of so many bytes each that are asked for at a time: a batch, or several small
// ones.
int64_t rows_ahead(int64_t batch, int64_t row_bytes);

class BatchSource : public InputSource {
 public:
  // Keeps a reference to `dataset`. Checks what can be known before reading: kConfig where a
  // binding has nothing bound to it, kData with file, expected and received where shapes or types
  // disagree. A dimension of 1 means the same as none.
  BatchSource(Dataset& dataset, std::vector<InputBinding> inputs, const BatchOptions& options);

  int64_t row_count() const;
  int64_t batch_count() const;  // the short last batch included
  int64_t rows_in(int64_t batch_index) const;
  // Makes a batch current; `epoch` from 0.
  void select(int64_t epoch, int64_t batch_index);
  // Makes rows [first, first + count) current, of data that are not shuffled.
  void select_rows(int64_t first, int64_t count);
  // Of data that are not shuffled, batches will be selected so far apart: read ahead is the next
  // one of those.
  void take_every(int64_t batches) { every_ = batches; }
  // The bytes of the permutation and conversion buffers, the dataset's own included.
  Bytes resident_bytes() const;

  // Threads that large reads are shared out to; none until it is called. Bits and errors are those
  // of one thread.
  void share_reading(const WorkSharing& sharing) { sharing_ = sharing; }

  // Throws kData naming file, row and value where the current batch holds a number that is not
  // finite. Reads the batch once more, and allocates.
  void refuse_not_finite();

  // The same of labels and numbers of rows that fill() would refuse in the first `count` rows of
  // the current batch: before anything was computed with the others.
  void refuse_bad_numbers(int64_t count);

  // Allocates nothing. Labels outside of [0, class_count), and numbers that name no row of a table,
  // are kData with row and value.
  void fill(int input, int64_t row_begin, int64_t row_count, void* destination) override;

 private:
  std::vector<RowSource*> sources_;  // by input
  std::vector<InputBinding> inputs_;
  BatchOptions options_;
  int64_t row_count_ = 0;
  Bytes resident_bytes_;
  int64_t epoch_ = -1;
  int64_t first_position_ = 0;   // of the current batch
  int64_t every_ = 1;            // batches from one that is selected to the next
  int64_t asked_until_ = 0;      // rows that are not shuffled were asked for up to here
  int64_t block_row_bytes_ = 1;  // of a row where it lies: what blocks are measured in
  RowOrder order_;
  WorkSharing sharing_;
  int64_t group_ahead_ = -1;  // the last group of blocks that was asked for ahead

  void check_rows(size_t input, int64_t count) const;
  void announce(RowSource& source, int64_t position) const;
  void read_ahead(int64_t position);
  void read_next_ahead(int64_t batch_index);
  void read_other_ahead(int64_t batch_index);
  int parts_for(const RowSource& source, int64_t row_count) const;
  // Rows at positions [first, first + count), read and checked; `order` is the calling thread's.
  void fill_range(size_t input, const RowOrder& order, int64_t first, int64_t count,
                  std::byte* destination) const;
  void check_values(const InputBinding& input, const RowSource& source, const RowOrder& order,
                    int64_t position, int64_t count, const void* values) const;
};

}  // namespace plimsoll::data
