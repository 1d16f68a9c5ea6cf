#include "codec/npy.h"

#include <gtest/gtest.h>

#include "unit/base/expect_error.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::codec {
namespace {

using test::expect_error;
using Kind = NumberFormat::Kind;

// A version 1 file with this dictionary and so many bytes of elements.
MemoryReader npy(const std::string& dictionary, size_t element_bytes, char major = 1) {
  std::string text = std::string("\x93NUMPY") + major + '\0';
  text += static_cast<char>(dictionary.size() & 0xFF);
  text += static_cast<char>(dictionary.size() >> 8);
  if (major > 1) text += std::string(2, '\0');
  return MemoryReader(bytes_of(text + dictionary + std::string(element_bytes, 'x')), "a.npy");
}

TEST(Npy, ReadsHeadersOfAllVersions) {
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n";
  for (char major : {1, 2, 3}) {
    const NpyHeader header = read_npy_header(npy(dictionary, 48, major));
    EXPECT_EQ(header.format, (NumberFormat{Kind::kFloat, 4, false}));
    EXPECT_EQ(header.shape, (std::vector<int64_t>{3, 4}));
    EXPECT_FALSE(header.fortran_order);
    EXPECT_EQ(header.data_offset, (major == 1 ? 10 : 12) + 60);
  }
}

TEST(Npy, ReadsEveryNumberType) {
  const auto format = [](const std::string& descr) {
    return read_npy_header(
               npy("{'descr': '" + descr + "', 'fortran_order': True, 'shape': (1,)}", 8))
        .format;
  };
  EXPECT_EQ(format(">f8"), (NumberFormat{Kind::kFloat, 8, true}));
  EXPECT_EQ(format("<f2"), (NumberFormat{Kind::kFloat, 2, false}));
  EXPECT_EQ(format("|u1"), (NumberFormat{Kind::kUnsigned, 1, false}));
  EXPECT_EQ(format("|b1"), (NumberFormat{Kind::kBool, 1, false}));
  EXPECT_EQ(format(">i1"), (NumberFormat{Kind::kSigned, 1, false}));
  EXPECT_EQ(format("=i8"), (NumberFormat{Kind::kSigned, 8, false}));
}

TEST(Npy, KeysComeInAnyOrderAndShapesInAnyRank) {
  NpyHeader header =
      read_npy_header(npy("{\"shape\":(2L,3L),'fortran_order':True,'descr':'<i4'}", 24));
  EXPECT_TRUE(header.fortran_order);
  EXPECT_EQ(header.shape, (std::vector<int64_t>{2, 3}));
  header = read_npy_header(npy("{'descr': '<i4', 'fortran_order': False, 'shape': ()}", 4));
  EXPECT_TRUE(header.shape.empty());
  header = read_npy_header(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (0, 5)}", 0));
  EXPECT_EQ(header.shape, (std::vector<int64_t>{0, 5}));
}

TEST(Npy, RefusesWhatIsNotNumbersWithAWayOut) {
  const auto expect_refused = [](const std::string& descr, const std::string& part) {
    expect_error(ErrorKind::kData, part, [&] {
      read_npy_header(npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,)}", 100));
    });
  };
  expect_refused("'|O'", "never unpickled");
  expect_refused("'<U7'", "np.unique");
  expect_refused("'<c8'", "astype('float32')");
  expect_refused("'<f16'", "astype('float32')");
  expect_refused("'<M8[ns]'", "astype('float32')");
  expect_refused("[('a', '<f4')]", "records");
}

TEST(Npy, RefusesMalformedHeaders) {
  for (const char* dictionary :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1", "[1, 2]",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'other': 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"}) {
    expect_error(ErrorKind::kData, "a.npy: expected",
                 [&] { read_npy_header(npy(dictionary, 100)); });
  }
  expect_error(ErrorKind::kData, "version 9",
               [] { read_npy_header(npy("{'descr': '<f4'}", 0, 9)); });
  expect_error(ErrorKind::kData, "np.save",
               [] { read_npy_header(MemoryReader(bytes_of("x,y\n1,2\n3,4"), "a.npy")); });
}

TEST(Npy, RefusesFilesThatAreCutShort) {
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}";
  expect_error(ErrorKind::kData, "expected 48 bytes of elements, as its header says, received 47",
               [&] { read_npy_header(npy(dictionary, 47)); });
  const std::string huge =
      "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4)}";
  expect_error(ErrorKind::kData, "more than 2^63", [&] { read_npy_header(npy(huge, 10)); });
  expect_error(ErrorKind::kData, "an end in the middle", [] {
    read_npy_header(MemoryReader(bytes_of(std::string("\x93NUMPY\x01\x00\xFF\xFF{", 11)), "a.npy"));
  });
}

std::string text_of(const NpyStrings& format, std::string_view stored) {
  std::string text;
  append_npy_string(format, std::as_bytes(std::span(stored)), text);
  return text;
}

TEST(Npy, ReadsStrings) {
  const auto read = [](const std::string& descr, size_t bytes) {
    return read_npy_strings(
        npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (2, 1)}", bytes));
  };
  EXPECT_FALSE(read("<f4", 8).has_value());
  const NpyStrings bytes = read("|S3", 6).value();
  EXPECT_EQ(bytes.bytes, 3);
  EXPECT_EQ(bytes.shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(text_of(bytes, std::string_view("a\0b\0\0", 5)), std::string("a\0b", 3));
  const NpyStrings big = read(">U2", 16).value();
  EXPECT_EQ(big.bytes, 8);
  EXPECT_EQ(text_of(big, std::string_view("\0\0\0\xe9\0\1\xf6\xa2", 8)), "\u00e9\U0001f6a2");
  EXPECT_EQ(text_of(read("<U2", 16).value(), std::string_view("a\0\0\0\0\0\0\0", 8)), "a");
  // Halves of characters, and numbers that are none.
  EXPECT_EQ(text_of(big, std::string_view("\0\0\xd8\0\xff\0\0\0", 8)), "\uFFFD\uFFFD");
  for (const char* odd :
       {"<U", "<U0", "|S0", "<U-1", "<U99999999999999999999", "|S1048577", "<U2x"}) {
    expect_error(ErrorKind::kData, "expected an array of numbers", [&] { read(odd, 64); });
  }
  expect_error(ErrorKind::kData, "cut short", [&] { read("<U5", 39); });
}

TEST(Npy, WritesWhatItReads) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {7}, {3, 4}, {1000, 28, 28, 1}}) {
    const std::string text = npy_header_text(DType::kUInt8, shape);
    EXPECT_EQ(text.size() % 64, 0u);
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    const MemoryReader file(bytes_of(text + std::string(static_cast<size_t>(count), 'x')), "x");
    const NpyHeader header = read_npy_header(file);
    EXPECT_EQ(header.shape, shape);
    EXPECT_EQ(header.format, native_format(DType::kUInt8));
    EXPECT_EQ(header.data_offset, static_cast<int64_t>(text.size()));
  }
  // Byte for byte what numpy.save writes before the elements.
  EXPECT_EQ(npy_header_text(DType::kFloat32, std::vector<int64_t>{3, 4}),
            std::string("\x93NUMPY\x01\x00v\x00", 10) +
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" +
                std::string(58, ' ') + "\n");
}

TEST(Npy, DamagedHeadersNeverCrash) {
  const MemoryReader good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", 48);
  std::vector<std::byte> bytes(static_cast<size_t>(good.size()));
  good.read_at(0, bytes);
  for_each_mutation(bytes, 5000, 3, [](std::vector<std::byte> damaged) {
    try {
      const MemoryReader file(std::move(damaged), "x");
      read_npy_strings(file);
      read_npy_header(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    }
  });
}

}  // namespace
}  // namespace plimsoll::codec
