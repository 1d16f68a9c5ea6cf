#include "codec/hdf5/hdf5_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "codec/hdf5/hdf5_checksum.h"

namespace plimsoll::codec {
namespace {

constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
constexpr uint64_t kMaxStructureBytes = 64 << 20;
constexpr uint64_t kMaxUserBlock = 1 << 20;

}  // namespace

std::optional<uint64_t> find_hdf5_signature(const ByteReader& file) {
  std::array<std::byte, kSignature.size()> start;
  for (uint64_t at = 0; at <= kMaxUserBlock; at = at == 0 ? 512 : at * 2) {
    if (file.size() < static_cast<int64_t>(at + start.size())) break;
    file.read_at(static_cast<int64_t>(at), start);
    if (std::equal(start.begin(), start.end(), std::as_bytes(std::span(kSignature)).begin())) {
      return at;
    }
  }
  return std::nullopt;
}

Hdf5Source::Hdf5Source(std::shared_ptr<const ByteReader> file)
    : file_(std::move(file)), fail_([this](const std::string& what) { refuse(what); }) {
  const std::optional<uint64_t> at = find_hdf5_signature(*file_);
  if (!at) refuse("a file without HDF5's signature (another format, or a download that failed)");
  read_superblock(*at);
}

void Hdf5Source::refuse(const std::string& what) const {
  throw Error(ErrorKind::kModel, name() + ": expected a readable HDF5 file, received " + what +
                                     ". Fetch or save the file again.");
}

void Hdf5Source::refuse_unsupported(const std::string& what) const {
  throw Error(ErrorKind::kModel,
              name() + ": expected HDF5 as Keras writes it, received " + what +
                  ". Save it with h5py's defaults (libver='earliest', no track_order, no links).");
}

bool Hdf5Source::is_undefined(uint64_t address) const {
  return address == (address_width_ == 8 ? UINT64_MAX : (uint64_t{1} << (8 * address_width_)) - 1);
}

uint64_t Hdf5Source::bytes_after(uint64_t address) const {
  const auto size = static_cast<uint64_t>(file_->size());
  if (base_ > size || address > size - base_) return 0;
  return size - base_ - address;
}

void Hdf5Source::check_range(uint64_t address, uint64_t count) const {
  const auto size = static_cast<uint64_t>(file_->size());
  if (is_undefined(address) || base_ > size || address > size - base_ ||
      count > size - base_ - address) {
    refuse(fmt::format("a structure of {} bytes at {} that passes the end of the file at {}", count,
                       address, size));
  }
}

void Hdf5Source::read_into(uint64_t address, std::span<std::byte> destination) const {
  check_range(address, destination.size());
  file_->read_at(static_cast<int64_t>(base_ + address), destination);
}

std::vector<std::byte> Hdf5Source::read(uint64_t address, uint64_t count) const {
  check_range(address, count);
  if (count > kMaxStructureBytes) refuse(fmt::format("a structure of {} bytes", count));
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  read_into(address, bytes);
  return bytes;
}

void Hdf5Source::read_superblock(uint64_t at) {
  const auto version = std::to_integer<int>(read(at + kSignature.size(), 1)[0]);
  if (version == 0 || version == 1) {
    read_superblock_0(at, version);
  } else if (version == 2 || version == 3) {
    read_superblock_2(at);
  } else {
    refuse(fmt::format("superblock version {}, where 0 to 3 are known", version));
  }
}

void Hdf5Source::read_superblock_0(uint64_t at, int version) {
  const std::vector<std::byte> sizes = read(at + 13, 2);
  address_width_ = std::to_integer<uint64_t>(sizes[0]);
  length_width_ = std::to_integer<uint64_t>(sizes[1]);
  for (uint64_t width : {address_width_, length_width_}) {
    if (width != 2 && width != 4 && width != 8) {
      refuse(fmt::format("addresses of {} bytes", width));
    }
  }
  // After the sizes: group parameters and flags, then four addresses and the root's entry.
  const uint64_t fields = at + (version == 0 ? 24 : 28);
  const std::vector<std::byte> bytes = read(fields, 6 * address_width_);
  ByteCursor cursor(bytes, fail_);
  base_ = cursor.take(address_width_);
  cursor.skip(4 * address_width_);  // free space, end, driver, name
  root_address_ = cursor.take(address_width_);
}

void Hdf5Source::read_superblock_2(uint64_t at) {
  const std::vector<std::byte> sizes = read(at + 9, 2);
  address_width_ = std::to_integer<uint64_t>(sizes[0]);
  length_width_ = std::to_integer<uint64_t>(sizes[1]);
  for (uint64_t width : {address_width_, length_width_}) {
    if (width != 2 && width != 4 && width != 8) {
      refuse(fmt::format("addresses of {} bytes", width));
    }
  }
  const uint64_t fields_bytes = 12 + 4 * address_width_;
  const std::vector<std::byte> bytes = read(at, fields_bytes + 4);
  ByteCursor cursor(bytes, fail_);
  cursor.skip(12);
  base_ = cursor.take(address_width_);
  cursor.skip(2 * address_width_);  // extension, end of file
  root_address_ = cursor.take(address_width_);
  if (cursor.take(4) != hdf5_lookup3(std::span(bytes).first(fields_bytes))) {
    refuse("a superblock with a wrong checksum");
  }
}

}  // namespace plimsoll::codec
