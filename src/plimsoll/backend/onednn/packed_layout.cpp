#include "backend/onednn/packed_layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <type_traits>

#include "backend/cpu/threads/threads.h"
#include "base/error.h"
#include "base/format.h"

namespace plimsoll::backend::onednn {
namespace {

constexpr std::string_view kFloat32 = "f32";
constexpr std::string_view kBFloat16 = "bf16";
constexpr size_t kMaxDims = 6;
constexpr int64_t kSide = 4;  // of squares that are transposed
constexpr int64_t kMaxElements = int64_t{1} << 40;

int64_t product(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

std::string join(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += fmt::format("{}{}", text.empty() ? "" : "x", value);
  return text;
}

[[noreturn]] void refuse_layout(std::string_view text) {
  throw Error(ErrorKind::kModel,
              "pack: expected a layout of this backend (f32 or bf16:d…:p…:s…:b…), received \"" +
                  std::string(text) + "\". Make the graph again for this kernel set.");
}

// Cuts `text` up to the next separator off and returns it.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

int64_t parse_number(std::string_view digits, std::string_view whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0 ||
      value > kMaxElements) {
    refuse_layout(whole);
  }
  return value;
}

std::vector<int64_t> parse_numbers(std::string_view field, char name, std::string_view whole) {
  if (field.empty() || field.front() != name) refuse_layout(whole);
  field.remove_prefix(1);
  std::vector<int64_t> values;
  while (!field.empty()) values.push_back(parse_number(take(field, 'x'), whole));
  return values;
}

// Offset of each index of one dimension.
std::vector<int64_t> offsets_of(const PackedLayout& layout, size_t dimension) {
  std::vector<int64_t> offsets(static_cast<size_t>(layout.dims[dimension]));
  for (size_t i = 0; i < offsets.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i);
    int64_t step = 1;
    int64_t offset = 0;
    for (size_t b = layout.blocks.size(); b-- > 0;) {
      const PackedLayout::Block& block = layout.blocks[b];
      if (block.dimension == static_cast<int>(dimension)) {
        offset += rest % block.size * step;
        rest /= block.size;
      }
      step *= block.size;
    }
    offsets[i] = offset + rest * layout.strides[dimension];
  }
  return offsets;
}

// outer[i] + inner[j], i slowest.
std::vector<int64_t> outer_sum(const std::vector<int64_t>& outer,
                               const std::vector<int64_t>& inner) {
  std::vector<int64_t> sums;
  sums.reserve(outer.size() * inner.size());
  for (int64_t o : outer) {
    for (int64_t i : inner) sums.push_back(o + i);
  }
  return sums;
}

// Greatest length that divides every maximal run of consecutive offsets.
int64_t common_run(const std::vector<int64_t>& offsets) {
  int64_t common = 0;
  int64_t length = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (i > 0 && offsets[i] != offsets[i - 1] + 1) {
      common = std::gcd(common, length);
      length = 0;
    }
    ++length;
  }
  return std::gcd(common, length);
}

// Element offset after the last one that the layout can address, in 128 bits' worth of care.
bool is_sound(const PackedLayout& layout) {
  const size_t rank = layout.dims.size();
  if ((rank != 2 && (rank < 4 || rank > kMaxDims)) || layout.padded.size() != rank ||
      layout.strides.size() != rank) {
    return false;
  }
  std::vector<int64_t> inner(rank, 1);
  for (const PackedLayout::Block& block : layout.blocks) {
    if (block.size < 1 || block.dimension < 0 || block.dimension >= static_cast<int>(rank)) {
      return false;
    }
    int64_t& size = inner[static_cast<size_t>(block.dimension)];
    if (block.size > kMaxElements / size) return false;
    size *= block.size;
  }
  double elements = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (layout.dims[d] < 1 || layout.padded[d] < layout.dims[d] ||
        layout.padded[d] % inner[d] != 0) {
      return false;
    }
    elements *= static_cast<double>(layout.padded[d]);
  }
  if (elements > static_cast<double>(kMaxElements)) return false;
  // Every outer index steps within the array.
  double last = -1 + std::accumulate(inner.begin(), inner.end(), 1.0, std::multiplies<>());
  for (size_t d = 0; d < rank; ++d) {
    const int64_t outer = layout.padded[d] / inner[d];
    last += static_cast<double>(outer - 1) * static_cast<double>(layout.strides[d]);
  }
  return last < elements;
}

// Kernels of a node's blocks, and of nodes with weights alike, move them by one table.
std::shared_ptr<const PackedOffsets> shared_offsets(const PackedLayout& layout) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const PackedOffsets>> tables;
  const std::lock_guard lock(mutex);
  std::erase_if(tables, [](const auto& table) { return table.second.expired(); });
  std::weak_ptr<const PackedOffsets>& table = tables[print(layout)];
  std::shared_ptr<const PackedOffsets> shared = table.lock();
  if (shared == nullptr) table = shared = std::make_shared<const PackedOffsets>(layout);
  return shared;
}

}  // namespace

Bytes PackedLayout::bytes() const { return Bytes(product(padded) * element_bytes); }

PackedLayout packed_layout(const dnnl::memory::desc& description) {
  PackedLayout layout;
  if (description.get_data_type() == dnnl::memory::data_type::bf16) layout.element_bytes = 2;
  if (description.get_format_kind() == dnnl::memory::format_kind::blocked) {
    layout.dims = description.get_dims();
    layout.padded = description.get_padded_dims();
    layout.strides = description.get_strides();
    const std::vector<int64_t> sizes = description.get_inner_blks();
    const std::vector<int64_t> dimensions = description.get_inner_idxs();
    for (size_t i = 0; i < sizes.size(); ++i) {
      layout.blocks.push_back({sizes[i], static_cast<int>(dimensions[i])});
    }
  }
  if (!is_sound(layout) || description.get_size() != static_cast<size_t>(layout.bytes().count())) {
    throw Error(ErrorKind::kBackend,
                "packed weights: expected a blocked layout, received one that is not. Use another "
                "version of oneDNN (3.1 to 3.2 are known to work).");
  }
  return layout;
}

std::string print(const PackedLayout& layout) {
  const std::string_view prefix = layout.element_bytes == 2 ? kBFloat16 : kFloat32;
  std::string text = std::string(prefix) + ":d" + join(layout.dims) + ":p" + join(layout.padded) +
                     ":s" + join(layout.strides);
  std::string blocks;
  for (const PackedLayout::Block& block : layout.blocks) {
    blocks += fmt::format("{}{}@{}", blocks.empty() ? "" : "x", block.size, block.dimension);
  }
  return text + ":b" + blocks;
}

PackedLayout parse_packed_layout(std::string_view text) {
  const std::string_view whole = text;
  const std::string_view prefix = take(text, ':');
  if (prefix != kFloat32 && prefix != kBFloat16) refuse_layout(whole);
  PackedLayout layout;
  layout.element_bytes = prefix == kBFloat16 ? 2 : 4;
  layout.dims = parse_numbers(take(text, ':'), 'd', whole);
  layout.padded = parse_numbers(take(text, ':'), 'p', whole);
  layout.strides = parse_numbers(take(text, ':'), 's', whole);
  if (text.empty() || text.front() != 'b') refuse_layout(whole);
  text.remove_prefix(1);
  while (!text.empty()) {
    std::string_view block = take(text, 'x');
    const int64_t size = parse_number(take(block, '@'), whole);
    const int64_t dimension = parse_number(block, whole);
    layout.blocks.push_back({size, static_cast<int>(std::min<int64_t>(dimension, kMaxDims))});
  }
  if (!is_sound(layout)) refuse_layout(whole);
  return layout;
}

PackedOffsets::PackedOffsets(const PackedLayout& layout) {
  const size_t rank = layout.dims.size();
  const auto offsets = [&](size_t dimension) { return offsets_of(layout, dimension); };
  if (rank == 2) {
    rows = offsets(0);
    columns = offsets(1);
  } else {
    const size_t o = rank == 4 ? 0 : 1;
    std::vector<int64_t> positions = offsets(o + 2);
    for (size_t d = o + 3; d < rank; ++d) positions = outer_sum(positions, offsets(d));
    rows = outer_sum(positions, offsets(o + 1));
    columns = rank == 4 ? offsets(o) : outer_sum(offsets(0), offsets(1));
  }
  run = common_run(columns);
  transposed = run == 1 && common_run(rows) % kSide == 0;
}

Bytes offset_table_bytes(const PackedLayout& layout) {
  const std::vector<int64_t>& dims = layout.dims;
  const int64_t columns = dims.size() == 2   ? dims[1]
                          : dims.size() == 4 ? dims[0]
                                             : dims[0] * dims[1];
  return Bytes(int64_t{sizeof(int64_t)} *
               (product(dims) / std::max<int64_t>(1, columns) + columns));
}

WeightMover::WeightMover(const PackedLayout& layout, int most_parts)
    : packed_bytes_(layout.bytes()),
      padded_(layout.padded != layout.dims),
      most_parts_(cpu::parts_for(2 * packed_bytes_.count(), most_parts)),
      offsets_(shared_offsets(layout)) {}

// move(plain offset, packed offset, count) with count = kRun, or offsets_->run where kRun is 0. By
// tiles: a row's runs lie far apart on the one side, a column's rows on the other, and whole rows
// or columns would meet a page for each run.
template <int kRun, typename Move>
void WeightMover::move_rows(const Move& move) const noexcept {
  const auto rows = static_cast<int64_t>(offsets_->rows.size());
  const auto columns = static_cast<int64_t>(offsets_->columns.size());
  const int64_t run = kRun == 0 ? offsets_->run : kRun;
  constexpr int64_t kTileRows = 16;
  const int64_t tile_columns = kRun == 1 ? 16 : 4 * run;
  cpu::for_each_range(rows, kTileRows, most_parts_, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; tile += kTileRows) {
      const int64_t last_row = std::min(end, tile + kTileRows);
      for (int64_t first = 0; first < columns; first += tile_columns) {
        const int64_t last = std::min(columns, first + tile_columns);
        for (int64_t row = tile; row < last_row; ++row) {
          const int64_t base = offsets_->rows[static_cast<size_t>(row)];
          for (int64_t column = first; column < last; column += run) {
            move(row * columns + column, base + offsets_->columns[static_cast<size_t>(column)],
                 run);
          }
        }
      }
    }
  });
}

template <typename Move>
void WeightMover::for_each_run(const Move& move) const noexcept {
  if (offsets_->run % 16 == 0) {
    move_rows<16>(move);
  } else if (offsets_->run == 1) {
    move_rows<1>(move);
  } else {
    move_rows<0>(move);
  }
}

// Rows are neighbours in packed memory where columns are not: squares of four are transposed.
void WeightMover::pack_transposed(const float* plain, float* packed) const noexcept {
  using Four [[gnu::vector_size(16)]] = float;
  const auto low = [](Four a, Four b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); };
  const auto high = [](Four a, Four b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); };
  const auto left = [](Four a, Four b) { return __builtin_shufflevector(a, b, 0, 1, 4, 5); };
  const auto right = [](Four a, Four b) { return __builtin_shufflevector(a, b, 2, 3, 6, 7); };
  const auto columns = static_cast<int64_t>(offsets_->columns.size());
  const auto load = [](const float* from) {
    Four numbers;
    std::memcpy(&numbers, from, sizeof(numbers));
    return numbers;
  };
  const auto transpose = [&](int64_t row, int64_t column) {
    const float* from = plain + row * columns + column;
    const Four a = load(from), b = load(from + columns);
    const Four c = load(from + 2 * columns), d = load(from + 3 * columns);
    const std::array<Four, 4> columns_of = {left(low(a, b), low(c, d)), right(low(a, b), low(c, d)),
                                            left(high(a, b), high(c, d)),
                                            right(high(a, b), high(c, d))};
    float* to = packed + offsets_->rows[static_cast<size_t>(row)];
    for (size_t i = 0; i < columns_of.size(); ++i) {
      std::memcpy(to + offsets_->columns[static_cast<size_t>(column) + i], &columns_of[i],
                  sizeof(Four));
    }
  };
  constexpr int64_t kTile = 16;
  const int64_t whole = columns / kSide * kSide;
  const auto rows = static_cast<int64_t>(offsets_->rows.size());
  cpu::for_each_range(rows, kTile, most_parts_, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; tile += kTile) {
      const int64_t last = std::min(end, tile + kTile);
      for (int64_t column = 0; column < whole; column += kSide) {
        for (int64_t row = tile; row < last; row += kSide) transpose(row, column);
      }
      for (int64_t row = tile; row < last; ++row) {
        for (int64_t column = whole; column < columns; ++column) {
          packed[offsets_->rows[static_cast<size_t>(row)] +
                 offsets_->columns[static_cast<size_t>(column)]] = plain[row * columns + column];
        }
      }
    }
  });
}

template <typename T>
void WeightMover::pack_elements(const T* plain, T* packed) const noexcept {
  if (padded_) std::memset(packed, 0, packed_bytes_.size());
  if constexpr (std::is_same_v<T, float>) {
    if (offsets_->transposed) return pack_transposed(plain, packed);
  }
  for_each_run([=](int64_t from, int64_t to, int64_t count) {
    std::memcpy(packed + to, plain + from, static_cast<size_t>(count) * sizeof(T));
  });
}

void WeightMover::pack(const float* plain, float* packed) const noexcept {
  pack_elements(plain, packed);
}

void WeightMover::pack(const uint16_t* plain, uint16_t* packed) const noexcept {
  pack_elements(plain, packed);
}

void WeightMover::unpack(const float* packed, float* plain, bool add) const noexcept {
  if (add) {
    for_each_run([=](int64_t to, int64_t from, int64_t count) {
      for (int64_t i = 0; i < count; ++i) plain[to + i] += packed[from + i];
    });
  } else {
    for_each_run([=](int64_t to, int64_t from, int64_t count) {
      std::memcpy(plain + to, packed + from, static_cast<size_t>(count) * sizeof(float));
    });
  }
}

}  // namespace plimsoll::backend::onednn
