#include "backend/onednn/packed_layout.h"

#include <gtest/gtest.h>

#include <numeric>

#include "unit/base/expect_error.h"

namespace plimsoll::backend::onednn {
namespace {

using dnnl::memory;

memory::desc blocked(memory::dims dims, memory::format_tag tag) {
  return memory::desc(std::move(dims), memory::data_type::f32, tag);
}

struct LayoutCase {
  memory::dims dims;
  memory::format_tag tag;
};
const LayoutCase kCases[] = {{{32, 16, 3, 3}, memory::format_tag::OIhw16i16o},
                             {{40, 5, 3, 2}, memory::format_tag::Ohwi16o},
                             {{24, 20, 1, 1}, memory::format_tag::OIhw8i8o},
                             {{7, 3, 2, 5}, memory::format_tag::oihw},
                             {{7, 3, 2, 5}, memory::format_tag::hwio},
                             {{32, 1, 1, 3, 3}, memory::format_tag::Goihw16g},
                             {{2, 16, 8, 3, 3}, memory::format_tag::gOIhw8i8o},
                             {{1, 32, 16, 2, 3, 3}, memory::format_tag::gOIdhw16i16o},
                             {{3, 16, 5, 3, 1, 2}, memory::format_tag::gOdhwi16o}};

TEST(PackedLayout, PrintsAndParses) {
  for (const LayoutCase& c : kCases) {
    const PackedLayout layout = packed_layout(blocked(c.dims, c.tag));
    EXPECT_EQ(parse_packed_layout(print(layout)), layout) << print(layout);
    EXPECT_EQ(print(layout).find(' '), std::string::npos);
  }
  EXPECT_EQ(print(packed_layout(blocked({32, 16, 3, 3}, memory::format_tag::OIhw16i16o))),
            "f32:d32x16x3x3:p32x16x3x3:s2304x2304x768x256:b16@1x16@0");
}

TEST(PackedLayout, RefusesWhatIsNoLayout) {
  for (const char* text :
       {"", "f32", "f32:d", "f32:d2x2:p2x2:s2x1", "f16:d2x2:p2x2:s2x1:b", "f32:d2x2:p2x2:s2:b",
        "f32:d4x4:p2x4:s4x1:b", "f32:d4x4:p4x4:s4x2:b", "f32:d4x4:p4x4:s4x1:b3@0",
        "f32:d4x4:p4x4:s4x1:b2@2", "f32:d0x4:p4x4:s4x1:b", "f32:d-1x4:p4x4:s4x1:b",
        "f32:d4x4x4:p4x4x4:s16x4x1:b", "f32:d4x4:p99999999999999x4:s4x1:b",
        "f32:d4x4:p4x4:s4x1:b99999999999x999999999999@0x2@1", "f32:d4x4:p4x4:s4x1:bx"}) {
    SCOPED_TRACE(text);
    test::expect_error(ErrorKind::kModel, "expected a layout", [&] { parse_packed_layout(text); });
  }
}

// (sizes…, channels / groups, filters) as the vendor sees it.
memory::desc plain(const memory::dims& dims) {
  const bool grouped = dims.size() > 4;
  const size_t o = grouped ? 1 : 0;
  const memory::dim filters = (grouped ? dims[0] : 1) * dims[o];
  memory::dims strides = {1, filters};
  memory::dim stride = dims[o + 1] * filters;
  for (size_t d = dims.size(); d-- > o + 2;) {
    strides.insert(strides.begin() + 2, stride);
    stride *= dims[d];
  }
  if (grouped) strides.insert(strides.begin(), dims[1]);
  return memory::desc(dims, memory::data_type::f32, strides);
}

// The vendor's own reorder is the oracle.
TEST(WeightMover, MovesAsTheVendorDoes) {
  dnnl::stream stream(engine());
  for (const LayoutCase& c : kCases) {
    const memory::desc packed = blocked(c.dims, c.tag);
    const PackedLayout layout = packed_layout(packed);
    SCOPED_TRACE(print(layout));
    const auto count = static_cast<size_t>(
        std::accumulate(c.dims.begin(), c.dims.end(), int64_t{1}, std::multiplies<>()));
    std::vector<float> weights(count);
    std::iota(weights.begin(), weights.end(), 1.0f);
    std::vector<float> expected(layout.bytes().size() / sizeof(float), -1.0f);
    memory from(plain(c.dims), engine(), weights.data());
    memory to(packed, engine(), expected.data());
    dnnl::reorder(from, to).execute(stream, from, to);
    stream.wait();
    for (int threads : {1, 2}) {
      const WeightMover mover(layout, threads);
      std::vector<float> actual(expected.size(), -1.0f);
      mover.pack(weights.data(), actual.data());
      EXPECT_EQ(actual, expected);
      std::vector<float> back(count, 100.0f);
      mover.unpack(actual.data(), back.data(), false);
      EXPECT_EQ(back, weights);
      mover.unpack(actual.data(), back.data(), true);
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(back[i], 2 * weights[i]);
    }
  }
}

TEST(WeightMover, MovesMatrices) {
  const PackedLayout layout = packed_layout(blocked({20, 48}, memory::format_tag::BA16a16b));
  std::vector<float> weights(20 * 48);
  std::iota(weights.begin(), weights.end(), 1.0f);
  std::vector<float> packed(layout.bytes().size() / sizeof(float), -1.0f);
  const WeightMover mover(layout, 1);
  mover.pack(weights.data(), packed.data());
  // Column block 1, row block 1 (rows 16 … 19, then padding), row 17, column 18.
  EXPECT_EQ(packed[1 * 32 * 16 + 1 * 16 * 16 + 1 * 16 + 2], weights[17 * 48 + 18]);
  EXPECT_EQ(packed[1 * 32 * 16 + 1 * 16 * 16 + 5 * 16 + 2], 0.0f);
  std::vector<float> back(weights.size());
  mover.unpack(packed.data(), back.data(), false);
  EXPECT_EQ(back, weights);
}

}  // namespace
}  // namespace plimsoll::backend::onednn
