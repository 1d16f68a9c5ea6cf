#pragma once

// Array files for the tests of data sources.

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "codec/npy.h"
#include "codec/zip_writer.h"
#include "unit/base/temporary_folder.h"
#include "unit/codec/memory_files.h"

namespace plimsoll::data {

template <typename Number>
std::string raw_text(const std::vector<Number>& values, bool big_endian = false) {
  std::string text(values.size() * sizeof(Number), '\0');
  if (!values.empty()) std::memcpy(text.data(), values.data(), text.size());
  if (big_endian) {
    for (size_t i = 0; i < text.size(); i += sizeof(Number)) {
      std::reverse(text.begin() + static_cast<std::ptrdiff_t>(i),
                   text.begin() + static_cast<std::ptrdiff_t>(i + sizeof(Number)));
    }
  }
  return text;
}

template <typename Number>
constexpr char kind_of() {
  if (std::is_floating_point_v<Number>) return 'f';
  return std::is_signed_v<Number> ? 'i' : 'u';
}

// An .npy file; `values` are in the order of the file.
template <typename Number>
std::string npy_text(const std::vector<int64_t>& shape, const std::vector<Number>& values,
                     bool fortran_order = false, bool big_endian = false) {
  std::string header = std::string("{'descr': '") + (big_endian ? '>' : '<') + kind_of<Number>() +
                       std::to_string(sizeof(Number)) +
                       "', 'fortran_order': " + (fortran_order ? "True" : "False") + ", 'shape': (";
  for (int64_t extent : shape) header += std::to_string(extent) + ", ";
  header += ")}";
  header.resize(118, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + raw_text(values, big_endian);
}

// 0, 1, 2, … by a step, as any number type.
template <typename Number>
std::vector<Number> counting(size_t count, double step = 1) {
  std::vector<Number> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<Number>(static_cast<double>(i) * step);
  return values;
}

// An IDX file of bytes.
inline std::string idx_text(const std::vector<int64_t>& shape, const std::vector<uint8_t>& values) {
  std::string text{'\0', '\0', '\x08', static_cast<char>(shape.size())};
  for (int64_t extent : shape) {
    for (int shift : {24, 16, 8, 0}) text += static_cast<char>((extent >> shift) & 0xFF);
  }
  return text + raw_text(values);
}

struct NpzMember {
  std::string name;
  std::string content;
  codec::ZipMethod method = codec::ZipMethod::kStored;
};

inline std::string write_npz(const test::TemporaryFolder& folder, const std::string& name,
                             const std::vector<NpzMember>& members) {
  File file = File::create(folder / name);
  codec::ZipWriter writer(file);
  for (const NpzMember& member : members) writer.add(member.name, member.content, member.method);
  writer.finish();
  return folder / name;
}

}  // namespace plimsoll::data
