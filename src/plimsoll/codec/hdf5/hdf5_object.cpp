#include "codec/hdf5/hdf5_object.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "codec/hdf5/hdf5_checksum.h"

namespace plimsoll::codec {
namespace {

constexpr size_t kMaxBlocks = 4096;
constexpr size_t kMaxMessages = 1 << 20;
constexpr uint64_t kMaxHeaderBytes = 16 << 20;

struct Block {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// Reads the blocks of one header, following continuations.
class HeaderReader {
 public:
  explicit HeaderReader(const Hdf5Source& source) : source_(source) {}

  Hdf5Object read(uint64_t address) {
    const std::vector<std::byte> start = source_.read(address, 4);
    const bool version_2 = start[0] == std::byte{'O'} && start[1] == std::byte{'H'} &&
                           start[2] == std::byte{'D'} && start[3] == std::byte{'R'};
    if (version_2) {
      read_version_2(address);
    } else {
      read_version_1(address);
    }
    return std::move(object_);
  }

 private:
  void add_block(uint64_t address, uint64_t bytes) {
    total_bytes_ += bytes;
    if (blocks_.size() >= kMaxBlocks || total_bytes_ > kMaxHeaderBytes || bytes > kMaxHeaderBytes) {
      source_.refuse(fmt::format("an object header without an end at {}", address));
    }
    blocks_.push_back({address, bytes});
  }

  void add_message(int type, uint64_t flags, std::span<const std::byte> body) {
    if (type == 0) return;  // a hole
    if (type == kHdf5Continuation) {
      ByteCursor cursor(body, source_.fail());
      const uint64_t address = cursor.take(source_.address_width());
      add_block(address, cursor.take(source_.length_width()));
      return;
    }
    if (object_.messages.size() >= kMaxMessages) source_.refuse("too many header messages");
    Hdf5Message message;
    message.type = type;
    message.shared = (flags & 2) != 0;
    message.body.assign(body.begin(), body.end());
    object_.messages.push_back(std::move(message));
  }

  void read_version_1(uint64_t address) {
    const std::vector<std::byte> prefix = source_.read(address, 16);
    ByteCursor cursor(prefix, source_.fail());
    if (cursor.take(1) != 1) {
      source_.refuse(fmt::format("no object header at {}", address));
    }
    cursor.skip(1);
    const uint64_t message_count = cursor.take(2);
    cursor.skip(4);
    add_block(address + 16, cursor.take(4));
    uint64_t seen = 0;
    for (size_t i = 0; i < blocks_.size() && seen < message_count; ++i) {
      const std::vector<std::byte> bytes = source_.read(blocks_[i].address, blocks_[i].bytes);
      ByteCursor messages(bytes, source_.fail());
      for (; messages.left() >= 8 && seen < message_count; ++seen) {
        const auto type = static_cast<int>(messages.take(2));
        const uint64_t size = messages.take(2);
        const uint64_t flags = messages.take(1);
        messages.skip(3);
        add_message(type, flags, messages.take_bytes(size));
      }
    }
  }

  void read_version_2(uint64_t address) {
    constexpr uint64_t kMaxPrefix = 34;
    const uint64_t prefix_bytes = std::min(kMaxPrefix, source_.bytes_after(address));
    const std::vector<std::byte> prefix = source_.read(address, prefix_bytes);
    ByteCursor cursor(prefix, source_.fail());
    cursor.skip(4);
    if (cursor.take(1) != 2) source_.refuse("an object header of an unknown version");
    const uint64_t flags = cursor.take(1);
    if ((flags & 0x20) != 0) cursor.skip(16);  // times
    if ((flags & 0x10) != 0) cursor.skip(4);   // attribute storage limits
    const uint64_t size = cursor.take(uint64_t{1} << (flags & 3));
    const uint64_t first = cursor.position();
    add_block(address, size > kMaxHeaderBytes ? size : first + size + 4);
    const bool ordered = (flags & 4) != 0;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const std::vector<std::byte> bytes = source_.read(blocks_[i].address, blocks_[i].bytes);
      read_block_2(bytes, i == 0 ? first : 4, ordered);
    }
  }

  // A whole block of version 2: start, messages, checksum.
  void read_block_2(std::span<const std::byte> bytes, uint64_t first, bool ordered) {
    if (bytes.size() < first + 4) source_.refuse("an object header block that is too short");
    const std::span<const std::byte> checked = bytes.first(bytes.size() - 4);
    ByteCursor checksum(bytes.last(4), source_.fail());
    if (checksum.take(4) != hdf5_lookup3(checked)) {
      source_.refuse("an object header with a wrong checksum");
    }
    ByteCursor messages(checked.subspan(first), source_.fail());
    const size_t message_header = ordered ? 6 : 4;
    while (messages.left() >= message_header) {
      const auto type = static_cast<int>(messages.take(1));
      const uint64_t size = messages.take(2);
      const uint64_t flags = messages.take(1);
      if (ordered) messages.skip(2);
      add_message(type, flags, messages.take_bytes(size));
    }
  }

  const Hdf5Source& source_;
  Hdf5Object object_;
  std::vector<Block> blocks_;
  uint64_t total_bytes_ = 0;
};

}  // namespace

const Hdf5Message* Hdf5Object::find(int type) const {
  for (const Hdf5Message& message : messages) {
    if (message.type == type) return &message;
  }
  return nullptr;
}

bool Hdf5Object::is_group() const {
  return find(kHdf5SymbolTable) != nullptr || find(kHdf5LinkInfo) != nullptr ||
         find(kHdf5Link) != nullptr;
}

Hdf5Object read_hdf5_object(const Hdf5Source& source, uint64_t address) {
  return HeaderReader(source).read(address);
}

std::span<const std::byte> need_hdf5_message(const Hdf5Source& source, const Hdf5Object& object,
                                             int type, const std::string& what) {
  const Hdf5Message* message = object.find(type);
  if (message == nullptr) source.refuse("a dataset without " + what);
  if (message->shared) source.refuse_unsupported("a dataset with a shared " + what);
  return message->body;
}

std::vector<int64_t> parse_hdf5_shape(const Hdf5Source& source, std::span<const std::byte> body) {
  constexpr uint64_t kMaxRank = 32;  // HDF5's own
  constexpr uint64_t kNullSpace = 2;
  ByteCursor cursor(body, source.fail());
  const uint64_t version = cursor.take(1);
  const uint64_t rank = cursor.take(1);
  cursor.skip(1);
  if (version == 1) {
    cursor.skip(5);
  } else if (version == 2) {
    if (cursor.take(1) == kNullSpace) return {0};
  } else {
    source.refuse("a dataspace of an unknown version");
  }
  if (rank > kMaxRank) source.refuse(fmt::format("an array of {} dimensions", rank));
  std::vector<int64_t> shape;
  for (uint64_t i = 0; i < rank; ++i) {
    const uint64_t extent = cursor.take(source.length_width());
    if (extent > static_cast<uint64_t>(INT64_MAX)) source.refuse("an array of impossible extent");
    shape.push_back(static_cast<int64_t>(extent));
  }
  return shape;
}

int64_t count_hdf5_elements(const Hdf5Source& source, std::span<const int64_t> shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 62)) {
      source.refuse("an array of more than 2^62 elements");
    }
  }
  return count;
}

}  // namespace plimsoll::codec
