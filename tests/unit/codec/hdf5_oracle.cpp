#include "unit/codec/hdf5_oracle.h"

#include <hdf5.h>

#include <stdexcept>
#include <utility>

#include "codec/hdf5/hdf5_checksum.h"

namespace plimsoll::codec::oracle {
namespace {

// A handle of libhdf5 with the function that closes it.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t), const char* what) : id_(id), close_(close) {
    if (id < 0) throw std::runtime_error(std::string("libhdf5: cannot ") + what);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT: as in the C interface

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

void check(herr_t status, const char* what) {
  if (status < 0) throw std::runtime_error(std::string("libhdf5: cannot ") + what);
}

Handle new_file(Structures structures) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make properties");
  check(H5Pset_fapl_core(access, 1 << 16, 0), "use memory");
  if (structures != Structures::kOldest) {
    const bool newest = structures == Structures::kNewest;
    const H5F_libver_t lowest = newest ? H5F_LIBVER_LATEST : H5F_LIBVER_V18;
    check(H5Pset_libver_bounds(access, lowest, H5F_LIBVER_LATEST), "set version");
  }
  return Handle(H5Fcreate("image.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, "make a file");
}

std::vector<std::byte> image_of(hid_t file) {
  check(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
  const ssize_t size = H5Fget_file_image(file, nullptr, 0);
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  H5Fget_file_image(file, bytes.data(), bytes.size());
  constexpr size_t kSuperblock2Bytes = 44;
  if (bytes[8] >= std::byte{2}) {
    // The image says that the file is closed, but libhdf5 does not renew the checksum over that.
    const uint32_t checksum = hdf5_lookup3(std::span(bytes).first(kSuperblock2Bytes));
    for (size_t i = 0; i < 4; ++i) {
      bytes[kSuperblock2Bytes + i] = static_cast<std::byte>((checksum >> (8 * i)) & 0xFF);
    }
  }
  return bytes;
}

Handle open_image(const std::vector<std::byte>& bytes) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make properties");
  check(H5Pset_fapl_core(access, 1 << 16, 0), "use memory");
  check(H5Pset_file_image(access, const_cast<std::byte*>(bytes.data()), bytes.size()), "set image");
  return Handle(H5Fopen("image.h5", H5F_ACC_RDONLY, access), H5Fclose, "open the file");
}

Handle space_of(const std::vector<hsize_t>& shape) {
  if (shape.empty()) return Handle(H5Screate(H5S_SCALAR), H5Sclose, "make a shape");
  return Handle(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose,
                "make a shape");
}

void add_group(hid_t file, const std::string& path) {
  const Handle group(H5Gcreate2(file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                     H5Gclose, "make a group");
}

void add_floats(hid_t file, const std::string& path, hid_t type, const std::vector<hsize_t>& shape,
                int seed, hid_t properties = H5P_DEFAULT) {
  const Handle space = space_of(shape);
  const Handle data(
      H5Dcreate2(file, path.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT), H5Dclose,
      "make a dataset");
  size_t count = 1;
  for (hsize_t extent : shape) count *= extent;
  const std::vector<float> values = sample_values(seed, count);
  check(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "write");
}

void add_attribute(hid_t file, const char* object, const char* name, hid_t type,
                   const std::vector<hsize_t>& shape, const void* data,
                   hid_t memory_type = H5I_INVALID_HID) {
  const Handle owner(H5Oopen(file, object, H5P_DEFAULT), H5Oclose, "open an object");
  const Handle space = space_of(shape);
  const Handle attribute(H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                         "make an attribute");
  check(H5Awrite(attribute, memory_type == H5I_INVALID_HID ? type : memory_type, data),
        "write an attribute");
}

Handle text_type(size_t size) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "make a type");
  check(H5Tset_size(type, size), "set a size");
  return type;
}

void add_attributes(hid_t file) {
  const Handle variable = text_type(H5T_VARIABLE);
  const std::string config = "{\"class_name\": \"Sequential\"" + std::string(5000, ' ') + "}";
  const char* config_text = config.c_str();
  add_attribute(file, "/", "model_config", variable, {}, &config_text);
  const char* texts[3] = {"one", "", "three"};
  add_attribute(file, "/", "variable_list", variable, {3}, texts);
  const Handle fixed = text_type(7);
  char padded[21] = {};
  const char* const parts[3] = {"dense_1", "conv2d", "flatten"};
  for (int i = 0; i < 3; ++i) std::string(parts[i]).copy(padded + 7 * i, 7);
  add_attribute(file, "/", "layer_names", fixed, {3}, padded);
  add_attribute(file, "/", "split_names0", fixed, {2}, padded);
  add_attribute(file, "/", "split_names1", fixed, {1}, padded + 14);
  const double number = 2.5;
  add_attribute(file, "group/inner", "number", H5T_NATIVE_DOUBLE, {}, &number);
  const int numbers[4] = {1, -2, 3, -4};
  add_attribute(file, "group/inner/f32", "numbers", H5T_STD_I32BE, {4}, numbers, H5T_NATIVE_INT);
  add_attribute(file, "/", "no_names", H5T_IEEE_F64LE, {0}, numbers);
}

void add_chunked(hid_t file) {
  const hsize_t chunk[3] = {4, 8, 2};
  const auto properties = [&] {
    Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make properties");
    check(H5Pset_chunk(list, 3, chunk), "set chunks");
    return list;
  };
  add_group(file, "chunks");
  const Handle plain = properties();
  add_floats(file, "chunks/plain", H5T_IEEE_F32LE, {9, 17, 3}, 21, plain);
  const Handle deflate = properties();
  check(H5Pset_deflate(deflate, 6), "set deflate");
  add_floats(file, "chunks/deflate", H5T_IEEE_F64LE, {9, 17, 3}, 22, deflate);
  const Handle all = properties();
  check(H5Pset_shuffle(all), "set shuffle");
  check(H5Pset_deflate(all, 6), "set deflate");
  check(H5Pset_fletcher32(all), "set fletcher32");
  add_floats(file, "chunks/all", H5T_IEEE_F32BE, {9, 17, 3}, 23, all);

  const Handle unwritten = properties();
  const float fill = 7.5f;
  check(H5Pset_fill_value(unwritten, H5T_NATIVE_FLOAT, &fill), "set a fill value");
  const Handle space = space_of({9, 17, 3});
  const Handle data(H5Dcreate2(file, "chunks/unwritten", H5T_IEEE_F32LE, space, H5P_DEFAULT,
                               unwritten, H5P_DEFAULT),
                    H5Dclose, "make a dataset");
}

}  // namespace

std::vector<float> sample_values(int seed, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] =
        static_cast<float>(static_cast<int>((i * 37 + static_cast<size_t>(seed) * 11) % 101) - 50);
  }
  return values;
}

std::vector<std::byte> make_sample(const SampleOptions& options) {
  const Handle file = new_file(options.structures);
  add_group(file, "group");
  add_group(file, "group/inner");
  add_group(file, "many");
  for (int i = 0; i < options.group_members; ++i) {
    add_group(file, "many/member_" + std::to_string(i));
  }
  add_floats(file, "group/inner/f32", H5T_IEEE_F32LE, {5, 3}, 1);
  add_floats(file, "group/f64", H5T_IEEE_F64BE, {4, 2, 3}, 2);
  add_floats(file, "group/i8", H5T_STD_I8LE, {10}, 3);
  add_floats(file, "group/i32", H5T_STD_I32BE, {10}, 4);
  add_floats(file, "scalar", H5T_IEEE_F32LE, {}, 5);
  const Handle compact(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make properties");
  check(H5Pset_layout(compact, H5D_COMPACT), "set compact");
  add_floats(file, "compact", H5T_IEEE_F32LE, {6}, 6, compact);
  add_attributes(file);
  if (options.chunked) add_chunked(file);
  return image_of(file);
}

std::vector<std::byte> make_one_chunk(int rows) {
  const Handle file = new_file(Structures::kOldest);
  const hsize_t chunk[2] = {static_cast<hsize_t>(rows), 700};
  const Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make properties");
  check(H5Pset_chunk(list, 2, chunk), "set chunks");
  check(H5Pset_shuffle(list), "set shuffle");
  check(H5Pset_deflate(list, 6), "set deflate");
  check(H5Pset_fletcher32(list), "set fletcher32");
  add_floats(file, "x", H5T_IEEE_F32LE, {chunk[0], 700}, 5, list);
  return image_of(file);
}

std::vector<std::byte> make_cycle() {
  const Handle file = new_file(Structures::kOldest);
  add_group(file, "a");
  add_floats(file, "a/values", H5T_IEEE_F32LE, {2}, 1);
  check(H5Lcreate_hard(file, "a", file, "a/again", H5P_DEFAULT, H5P_DEFAULT), "link");
  return image_of(file);
}

std::vector<std::byte> make_soft_link() {
  const Handle file = new_file(Structures::kOldest);
  add_floats(file, "values", H5T_IEEE_F32LE, {2}, 1);
  check(H5Lcreate_soft("/values", file, "alias", H5P_DEFAULT, H5P_DEFAULT), "link");
  return image_of(file);
}

std::vector<long long> read_shape(const std::vector<std::byte>& file, const std::string& dataset) {
  const Handle image = open_image(file);
  const Handle data(H5Dopen2(image, dataset.c_str(), H5P_DEFAULT), H5Dclose, "open a dataset");
  const Handle space(H5Dget_space(data), H5Sclose, "get a shape");
  std::vector<hsize_t> extents(static_cast<size_t>(H5Sget_simple_extent_ndims(space)));
  H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  return {extents.begin(), extents.end()};
}

std::vector<float> read_floats(const std::vector<std::byte>& file, const std::string& dataset) {
  const Handle image = open_image(file);
  const Handle data(H5Dopen2(image, dataset.c_str(), H5P_DEFAULT), H5Dclose, "open a dataset");
  const Handle space(H5Dget_space(data), H5Sclose, "get a shape");
  std::vector<float> values(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
  if (values.empty()) return values;
  check(H5Dread(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "read");
  return values;
}

std::string read_text_attribute(const std::vector<std::byte>& file, const std::string& object,
                                const std::string& name) {
  const Handle image = open_image(file);
  const Handle attribute(
      H5Aopen_by_name(image, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      "open an attribute");
  const Handle type(H5Aget_type(attribute), H5Tclose, "get a type");
  char* text = nullptr;
  check(H5Aread(attribute, type, &text), "read an attribute");
  std::string result(text == nullptr ? "" : text);
  H5free_memory(text);
  return result;
}

std::vector<std::string> read_texts_attribute(const std::vector<std::byte>& file,
                                              const std::string& object, const std::string& name) {
  const Handle image = open_image(file);
  const Handle attribute(
      H5Aopen_by_name(image, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      "open an attribute");
  const Handle type(H5Aget_type(attribute), H5Tclose, "get a type");
  const Handle space(H5Aget_space(attribute), H5Sclose, "get a shape");
  const auto count = static_cast<size_t>(H5Sget_simple_extent_npoints(space));
  const size_t width = H5Tget_size(type);
  std::string raw(count * width, '\0');
  if (count > 0) check(H5Aread(attribute, type, raw.data()), "read an attribute");
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) {
    std::string text = raw.substr(i * width, width);
    texts.push_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

std::vector<double> read_numbers_attribute(const std::vector<std::byte>& file,
                                           const std::string& object, const std::string& name) {
  const Handle image = open_image(file);
  const Handle attribute(
      H5Aopen_by_name(image, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      "open an attribute");
  const Handle space(H5Aget_space(attribute), H5Sclose, "get a shape");
  std::vector<double> numbers(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
  if (numbers.empty()) return numbers;
  check(H5Aread(attribute, H5T_NATIVE_DOUBLE, numbers.data()), "read an attribute");
  return numbers;
}

std::vector<std::string> list_group(const std::vector<std::byte>& file, const std::string& group) {
  const Handle image = open_image(file);
  const Handle opened(H5Gopen2(image, group.c_str(), H5P_DEFAULT), H5Gclose, "open a group");
  H5G_info_t info = {};
  check(H5Gget_info(opened, &info), "list a group");
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    std::string name(300, '\0');
    const ssize_t size = H5Lget_name_by_idx(opened, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(),
                                            name.size(), H5P_DEFAULT);
    names.push_back(name.substr(0, static_cast<size_t>(size)));
  }
  return names;
}

}  // namespace plimsoll::codec::oracle
