#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/accounted.h"
#include "base/error.h"
#include "base/format.h"
#include "base/shape.h"
#include "codec/number_format.h"
#include "data/csv/csv_schema.h"
#include "data/dataset.h"
#include "data/sample_shape.h"

namespace plimsoll::data {
namespace {

// A read of less is not worth another thread.
constexpr int64_t kBytesOfAPart = 64 << 10;
constexpr int kMostParts = 64;
// The most that is asked for ahead: it takes page cache, which a control group counts.
constexpr int64_t kBytesAhead = 16 << 20;
// Less at a time would wait for the device each time.
constexpr int64_t kLeastBytesAhead = 4 << 20;

// What an option to give the missing thing is called.
const char* way_out(InputBinding::Role role) {
  switch (role) {
    case InputBinding::Role::kFeatures:
      return "Name the data with --data.";
    case InputBinding::Role::kTarget:
      return "Name the labels with --labels, or save them as y in the .npz.";
    case InputBinding::Role::kSampleWeight:
      return "Name the weights with --sample-weights, or save them as sample_weight in the .npz.";
  }
  return "";
}

const char* role_name(InputBinding::Role role) {
  switch (role) {
    case InputBinding::Role::kFeatures:
      return "features";
    case InputBinding::Role::kTarget:
      return "labels";
    case InputBinding::Role::kSampleWeight:
      return "sample weights";
  }
  return "";
}

// Null: there is none.
RowSource* find_source(const Dataset& dataset, const InputBinding& input) {
  const std::vector<std::shared_ptr<RowSource>>* group = &dataset.features;
  if (input.role == InputBinding::Role::kTarget) group = &dataset.targets;
  if (input.role == InputBinding::Role::kSampleWeight) group = &dataset.weights;
  const auto index = static_cast<size_t>(input.index);
  return index < group->size() ? (*group)[index].get() : nullptr;
}

RowSource& need_source(const Dataset& dataset, const InputBinding& input) {
  if (RowSource* const source = find_source(dataset, input)) return *source;
  throw Error(ErrorKind::kConfig, "[" + input.name + "] expected " + role_name(input.role) +
                                      ", received none. " + way_out(input.role));
}

std::string batch_text(const std::vector<int64_t>& row_shape) {
  std::vector<Dim> dims = {Dim::batch()};
  for (const int64_t dim : row_shape) dims.push_back(Dim::constant(dim));
  return to_string(Shape(std::move(dims)));
}

// What arithmetic that repeats dimensions of 1 makes of both, aligned at their ends; nothing where
// they do not fit even so. The batch stands in front of either.
std::optional<std::string> broadcast_text(const std::vector<int64_t>& left,
                                          const std::vector<int64_t>& right) {
  std::vector<int64_t> dims(std::max(left.size(), right.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t a = i < left.size() ? left[left.size() - 1 - i] : 1;
    const int64_t b = i < right.size() ? right[right.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1) return std::nullopt;
    dims[dims.size() - 1 - i] = std::max(a, b);
  }
  return batch_text(dims);
}

void check_target(const InputBinding& input, const RowSource& source) {
  const std::vector<int64_t>& expected = *input.sample_shape;
  const std::vector<int64_t>& received = source.row_shape();
  if (is_same_shape(expected, received)) return;
  // A table's columns, or a list of a record: elements in order.
  const bool as_many = fixed_shape(received).element_count(1) == input.row_elements;
  if (as_many && is_flat(received)) return;
  const std::optional<std::string> both = broadcast_text(expected, received);
  const bool one_hot = input.class_count > 1 && input.row_elements == 1 &&
                       fixed_shape(received).element_count(1) == input.class_count;
  throw Error(ErrorKind::kData,
              "[" + input.name + "] " + source.origin() + ": expected labels of shape " +
                  batch_text(expected) + ", as the predictions ask for, received labels of shape " +
                  batch_text(received) + "." +
                  (both ? " A loss that repeats one for the other would be of shape " + *both +
                              ", and is refused."
                        : "") +
                  (one_hot ? fmt::format(" These are one number for each of the {} classes: use "
                                         "categorical_crossentropy, or labels of whole numbers "
                                         "(in Python: y.argmax(-1)).",
                                         input.class_count)
                           : " Give one label for each prediction, or change the last layer or "
                             "the loss."));
}

void check_source(const InputBinding& input, const RowSource& source) {
  if (input.sample_shape && input.role == InputBinding::Role::kTarget) check_target(input, source);
  if (input.sample_shape && input.role == InputBinding::Role::kFeatures) {
    check_sample_shape("[" + input.name + "] " + source.origin(), *input.sample_shape,
                       source.row_shape());
  }
  const Shape shape = fixed_shape(source.row_shape());
  if (shape.element_count(1) != input.row_elements) {
    throw Error(ErrorKind::kData,
                fmt::format("[{}] {}: expected samples of {} numbers, received samples of shape "
                            "{}, {} numbers. Give them that size, or the model another one.",
                            input.name, source.origin(), input.row_elements, to_string(shape),
                            shape.element_count(1)));
  }
  if (!source.can_read_as(input.dtype)) {
    throw Error(ErrorKind::kData, "[" + input.name + "] " + source.origin() +
                                      ": expected numbers that can be read as " +
                                      std::string(to_string(input.dtype)) + ", received " +
                                      std::string(to_string(source.stored_dtype())) + ".");
  }
}

// Index of the first value outside of [0, bound) that is not the ignored one, or -1.
template <typename Value>
int64_t find_outside(const void* values, int64_t count, int64_t bound,
                     const std::optional<int64_t>& ignored) {
  const auto* first = static_cast<const Value*>(values);
  for (int64_t i = 0; i < count; ++i) {
    if (first[i] >= 0 && first[i] < static_cast<Value>(bound)) continue;
    if (!ignored || first[i] != static_cast<Value>(*ignored)) return i;
  }
  return -1;
}

template <typename Value>
int64_t find_not_finite(const void* values, int64_t count) {
  const auto* first = static_cast<const Value*>(values);
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(first[i])) return i;
  }
  return -1;
}

int64_t find_bad_label(DType dtype, const void* values, int64_t count, int64_t classes,
                       const std::optional<int64_t>& ignored) {
  switch (dtype) {
    case DType::kInt32:
      return find_outside<int32_t>(values, count, classes, ignored);
    case DType::kInt64:
      return find_outside<int64_t>(values, count, classes, ignored);
    case DType::kFloat32:
      return find_outside<float>(values, count, classes, ignored);
    case DType::kFloat64:
      return find_outside<double>(values, count, classes, ignored);
    default:
      return -1;
  }
}

// Index of the first of `count` values from value `first` on that names no row, or -1.
template <typename Value>
int64_t find_no_row(const void* values, int64_t first, int64_t count, int64_t rows) {
  const auto* from = static_cast<const Value*>(values) + first;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<Value>) {
      if (!(from[i] > Value(-1) && from[i] < static_cast<Value>(rows))) return i;
    } else {
      if (static_cast<int64_t>(from[i]) < 0 || static_cast<int64_t>(from[i]) >= rows) return i;
    }
  }
  return -1;
}

int64_t find_bad_index(DType dtype, const void* values, int64_t first, int64_t count,
                       int64_t rows) {
  switch (dtype) {
    case DType::kUInt8:
      return find_no_row<uint8_t>(values, first, count, rows);
    case DType::kInt8:
      return find_no_row<int8_t>(values, first, count, rows);
    case DType::kInt32:
      return find_no_row<int32_t>(values, first, count, rows);
    case DType::kInt64:
      return find_no_row<int64_t>(values, first, count, rows);
    case DType::kFloat32:
      return find_no_row<float>(values, first, count, rows);
    case DType::kFloat64:
      return find_no_row<double>(values, first, count, rows);
    default:
      return -1;
  }
}

int64_t find_bad_number(DType dtype, const void* values, int64_t count) {
  if (dtype == DType::kFloat32) return find_not_finite<float>(values, count);
  if (dtype == DType::kFloat64) return find_not_finite<double>(values, count);
  return -1;
}

}  // namespace

// What made so many numbers of a table's columns: the one with the most categories.
std::string widest_column(const Dataset& dataset) {
  if (dataset.csv == nullptr || dataset.features.size() != 1) return "";
  const CsvColumn* widest = nullptr;
  for (size_t i = 0; i < dataset.csv->columns.size(); ++i) {
    const CsvColumn& column = dataset.csv->columns[i];
    if (!column.used || !column.text || static_cast<int>(i) == dataset.csv->label) continue;
    if (widest == nullptr || column.categories.size() > widest->categories.size()) widest = &column;
  }
  if (widest == nullptr || widest->categories.size() < 3) return "";
  return fmt::format(
      "\nColumn {} became {} numbers, one for each word in it. Name the columns to "
      "use, without it, by --columns, or give it one number with --categories index.",
      widest->name, widest->categories.size());
}

void check_shapes(const Dataset& dataset, const std::vector<InputBinding>& inputs) {
  for (const InputBinding& input : inputs) {
    const RowSource* const source = find_source(dataset, input);
    if (source == nullptr) continue;
    try {
      check_source(input, *source);
    } catch (const WrongShape& error) {
      throw WrongShape(error.message() + widest_column(dataset));
    }
  }
}

int64_t rows_ahead(int64_t batch, int64_t row_bytes) {
  const int64_t least = std::max(kLeastBytesAhead / row_bytes, int64_t{1});
  const int64_t most = std::max(kBytesAhead / row_bytes, int64_t{1});
  return std::min(std::max(batch, least), most);
}

BatchSource::BatchSource(Dataset& dataset, std::vector<InputBinding> inputs,
                         const BatchOptions& options)
    : inputs_(std::move(inputs)),
      options_(options),
      row_count_(dataset.row_count()),
      resident_bytes_(dataset.resident_bytes()),
      order_(row_count_) {
  const MemoryTag tag(MemoryPart::kData);
  if (options_.batch < 1) {
    throw Error(
        ErrorKind::kConfig,
        fmt::format("--batch: expected a number of samples above 0, received {}.", options_.batch));
  }
  dataset.check_rows();
  for (const InputBinding& input : inputs_) {
    RowSource& source = need_source(dataset, input);
    check_source(input, source);
    source.expect_order(options_.shuffle != Shuffle::kNone);
    sources_.push_back(&source);
    const int64_t elements = fixed_shape(source.row_shape()).element_count(1);
    block_row_bytes_ =
        std::max(block_row_bytes_, elements * element_bytes(source.stored_dtype()).count());
  }
}

int64_t BatchSource::row_count() const { return row_count_; }

int64_t BatchSource::batch_count() const {
  return row_count_ / options_.batch + (row_count_ % options_.batch == 0 ? 0 : 1);
}

int64_t BatchSource::rows_in(int64_t batch_index) const {
  return std::min(options_.batch, row_count_ - batch_index * options_.batch);
}

Bytes BatchSource::resident_bytes() const { return resident_bytes_; }

void BatchSource::select(int64_t epoch, int64_t batch_index) {
  const MemoryTag tag(MemoryPart::kData);
  PLIMSOLL_CHECK(batch_index >= 0 && batch_index < batch_count(), "a batch beyond the data");
  first_position_ = batch_index * options_.batch;
  if (options_.shuffle == Shuffle::kNone) {
    read_next_ahead(batch_index);
    return;
  }
  if (epoch == epoch_) return;
  epoch_ = epoch;
  order_ = RowOrder(options_.shuffle, row_count_, block_row_bytes_, options_.seed, epoch);
  group_ahead_ = -1;
}

// Asks for the rows of the next batch while this one is computed on. (A full shuffle's rows lie
// anywhere: a file that fits is asked for as a whole, see array_rows.cpp.)
void BatchSource::read_next_ahead(int64_t batch_index) {
  if (every_ > 1) return read_other_ahead(batch_index + every_);
  const int64_t next = batch_index + 1 == batch_count() ? 0 : batch_index + 1;
  if (next == batch_index) return;
  if (next == 0) asked_until_ = 0;
  const int64_t begin = next * options_.batch;
  const int64_t rows = rows_ahead(options_.batch, block_row_bytes_);
  const int64_t end = std::min(begin + rows, row_count_);
  const bool follows = asked_until_ > begin && asked_until_ <= end;
  const int64_t first = follows ? asked_until_ : begin;
  const bool worth = first == begin || end == row_count_ || end - first >= rows / 2;
  if (first == end || !worth) return;
  for (RowSource* source : sources_) source->read_ahead(first, end - first);
  asked_until_ = end;
}

// A batch by itself, as far as buffers go: those around it are others'.
void BatchSource::read_other_ahead(int64_t batch_index) {
  if (batch_index >= batch_count()) return;
  const int64_t rows = std::min(rows_in(batch_index), rows_ahead(options_.batch, block_row_bytes_));
  for (RowSource* source : sources_) source->read_ahead(batch_index * options_.batch, rows);
}

void BatchSource::select_rows(int64_t first, int64_t count) {
  const MemoryTag tag(MemoryPart::kData);
  PLIMSOLL_CHECK(options_.shuffle == Shuffle::kNone && first >= 0 && count <= row_count_ - first,
                 "rows beyond the data");
  first_position_ = first;
  const int64_t next = std::min(count, row_count_ - first - count);
  if (next == 0) return;
  for (RowSource* source : sources_) source->read_ahead(first + count, next);
}

// Asks for the blocks of this group and of the next one before their rows are read.
void BatchSource::read_ahead(int64_t position) {
  if (options_.shuffle != Shuffle::kBlock) return;
  const int64_t last = std::min(order_.group_of(position) + 1, order_.group_count() - 1);
  for (int64_t group = std::max(group_ahead_ + 1, last - 1); group <= last; ++group) {
    for (int64_t i = 0; i < order_.blocks_in(group); ++i) {
      const RowOrder::Rows block = order_.block(group, i);
      for (RowSource* source : sources_) source->read_ahead(block.first, block.count);
    }
    group_ahead_ = group;
  }
}

void BatchSource::fill(int input, int64_t row_begin, int64_t row_count, void* destination) {
  const auto index = static_cast<size_t>(input);
  const int64_t first = first_position_ + row_begin;
  PLIMSOLL_CHECK(index < sources_.size() && row_begin >= 0 && row_count >= 0 &&
                     first + row_count <= row_count_,
                 "rows beyond the batch");
  const InputBinding& binding = inputs_[index];
  RowSource& source = *sources_[index];
  announce(source, first);
  read_ahead(first);
  auto* out = static_cast<std::byte*>(destination);
  const int parts = parts_for(source, row_count);
  if (parts == 1) {
    fill_range(index, order_, first, row_count, out);
    return;
  }
  std::array<std::exception_ptr, kMostParts> errors;
  const int64_t row_bytes = binding.row_elements * element_bytes(binding.dtype).count();
  const auto fill_part = [&](int part) {
    const int64_t begin = row_count * part / parts;
    const int64_t end = row_count * (part + 1) / parts;
    try {
      const RowOrder order = order_;
      fill_range(index, order, first + begin, end - begin, out + begin * row_bytes);
    } catch (...) {
      errors[static_cast<size_t>(part)] = std::current_exception();
    }
  };
  sharing_.run(
      parts,
      [](const void* body, int part) { (*static_cast<const decltype(fill_part)*>(body))(part); },
      &fill_part);
  // The first part's first: what one thread would have met.
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void BatchSource::refuse_not_finite() {
  const MemoryTag tag(MemoryPart::kData);
  const bool checked = options_.check_finite;
  options_.check_finite = true;
  const int64_t count = std::min(options_.batch, row_count_ - first_position_);
  for (size_t input = 0; input < inputs_.size(); ++input) check_rows(input, count);
  options_.check_finite = checked;
}

void BatchSource::refuse_bad_numbers(int64_t count) {
  const MemoryTag tag(MemoryPart::kData);
  for (size_t input = 0; input < inputs_.size(); ++input) {
    if (inputs_[input].class_count > 0 || !inputs_[input].bounds.empty()) check_rows(input, count);
  }
}

void BatchSource::check_rows(size_t input, int64_t count) const {
  const InputBinding& binding = inputs_[input];
  const Bytes row_bytes = element_bytes(binding.dtype) * binding.row_elements;
  std::vector<std::byte> row(row_bytes.size());
  for (int64_t i = 0; i < count; ++i) {
    fill_range(input, order_, first_position_ + i, 1, row.data());
  }
}

int BatchSource::parts_for(const RowSource& source, int64_t row_count) const {
  if (sharing_.run == nullptr || !source.reads_together()) return 1;
  const int64_t elements = fixed_shape(source.row_shape()).element_count(1);
  const int64_t bytes = row_count * elements * element_bytes(source.stored_dtype()).count();
  const int64_t worth = std::min(bytes / kBytesOfAPart, row_count);
  return static_cast<int>(std::clamp<int64_t>(worth, 1, std::min(sharing_.threads, kMostParts)));
}

void BatchSource::fill_range(size_t input, const RowOrder& order, int64_t first, int64_t count,
                             std::byte* destination) const {
  const MemoryTag tag(MemoryPart::kData);
  const InputBinding& binding = inputs_[input];
  RowSource& source = *sources_[input];
  const int64_t row_bytes = binding.row_elements * element_bytes(binding.dtype).count();
  // Rows that follow each other in the data are read by one call; unshuffled, that is all of them.
  for (int64_t done = 0; done < count;) {
    const int64_t row = order.row_at(first + done);
    int64_t run = order.is_identity() ? count : 1;
    while (done + run < count && order.row_at(first + done + run) == row + run) ++run;
    source.read(row, run, binding.dtype, destination + done * row_bytes);
    done += run;
  }
  check_values(binding, source, order, first, count, destination);
}

void BatchSource::announce(RowSource& source, int64_t position) const {
  std::array<int64_t, RowSource::kMostAhead> rows;
  const int64_t ahead = std::min(source.lookahead(), row_count_ - position);
  if (ahead <= 0) return;
  for (int64_t i = 0; i < ahead; ++i) rows[static_cast<size_t>(i)] = order_.row_at(position + i);
  source.announce(std::span(rows).first(static_cast<size_t>(ahead)));
}

void BatchSource::check_values(const InputBinding& input, const RowSource& source,
                               const RowOrder& order, int64_t position, int64_t count,
                               const void* values) const {
  const int64_t elements = count * input.row_elements;
  const auto refuse = [&](int64_t element, const std::string& expected) {
    const auto width = element_bytes(input.dtype).count();
    const auto* value = static_cast<const std::byte*>(values) + element * width;
    const int64_t row = order.row_at(position + element / input.row_elements);
    throw Error(ErrorKind::kData, source.name_of(row) + ": expected " + expected + ", received " +
                                      codec::number_text(codec::native_format(input.dtype), value) +
                                      ".");
  };
  if (input.class_count > 0) {
    const int64_t bad =
        find_bad_label(input.dtype, values, elements, input.class_count, input.ignored_class);
    if (bad >= 0) {
      refuse(bad, fmt::format("a label from 0 to {} (the model has {} classes){}",
                              input.class_count - 1, input.class_count,
                              input.ignored_class
                                  ? fmt::format(" or {}, which is ignored", *input.ignored_class)
                                  : ""));
    }
  }
  for (const InputBinding::Bound& bound : input.bounds) {
    for (int64_t row = 0; row < count; ++row) {
      int64_t first = row * input.row_elements + bound.begin;
      for (int64_t piece = 0; piece < bound.count; ++piece, first += bound.step) {
        const int64_t bad =
            find_bad_index(input.dtype, values, first, bound.end - bound.begin, bound.row_count);
        if (bad < 0) continue;
        refuse(first + bad, fmt::format("a number from 0 to {} (the table {} has {} rows)",
                                        bound.row_count - 1, bound.table, bound.row_count));
      }
    }
  }
  if (options_.check_finite) {
    const int64_t bad = find_bad_number(input.dtype, values, elements);
    if (bad >= 0) refuse(bad, "a finite number");
  }
}

}  // namespace plimsoll::data
