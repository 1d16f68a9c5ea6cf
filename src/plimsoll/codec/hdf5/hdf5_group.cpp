// The members of groups, old (symbol table: B-tree over nodes, names in a heap) and new (messages).

#include <algorithm>
#include <utility>

#include "codec/hdf5/hdf5_object.h"

namespace plimsoll::codec {
namespace {

constexpr size_t kMaxLinks = 1 << 20;
constexpr size_t kMaxNodes = 1 << 16;
constexpr size_t kMaxNameBytes = 16 << 20;  // of one group's members together

// Names of an old group's members.
class LocalHeap {
 public:
  LocalHeap(const Hdf5Source& source, uint64_t address) : source_(source) {
    const uint64_t header_bytes = 8 + 2 * source.length_width() + source.address_width();
    const std::vector<std::byte> header = source.read(address, header_bytes);
    ByteCursor cursor(header, source.fail());
    if (cursor.take_text(4) != "HEAP") source.refuse("a group without its names");
    cursor.skip(4);
    const uint64_t bytes = cursor.take(source.length_width());
    cursor.skip(source.length_width());
    names_ = source.read(cursor.take(source.address_width()), bytes);
  }

  std::string name_at(uint64_t offset) const {
    if (offset >= names_.size()) source_.refuse("a group member without a name");
    const auto begin = names_.begin() + static_cast<std::ptrdiff_t>(offset);
    const auto end = std::find(begin, names_.end(), std::byte{0});
    if (end == names_.end()) source_.refuse("a group member whose name has no end");
    return std::string(reinterpret_cast<const char*>(&*begin), static_cast<size_t>(end - begin));
  }

 private:
  const Hdf5Source& source_;
  std::vector<std::byte> names_;
};

class SymbolTable {
 public:
  SymbolTable(const Hdf5Source& source, uint64_t heap) : source_(source), heap_(source, heap) {}

  std::vector<Hdf5Link> read(uint64_t tree) {
    read_node(tree, -1);
    return std::move(links_);
  }

 private:
  // `level` is what the parent demands; -1 for the top.
  void read_node(uint64_t address, int level) {
    constexpr int kMaxLevel = 32;
    if (++nodes_ > kMaxNodes) source_.refuse("a group without an end");
    const uint64_t header_bytes = 8 + 2 * source_.address_width();
    const std::vector<std::byte> header = source_.read(address, header_bytes);
    ByteCursor start(header, source_.fail());
    if (start.take_text(4) != "TREE" || start.take(1) != 0) {
      source_.refuse("a group without its tree of members");
    }
    const auto own_level = static_cast<int>(start.take(1));
    if (own_level > kMaxLevel || (level >= 0 && own_level != level)) {
      source_.refuse("a tree of group members that is damaged");
    }
    const uint64_t count = start.take(2);
    const uint64_t entry = source_.length_width() + source_.address_width();
    const std::vector<std::byte> body = source_.read(address + header_bytes, count * entry);
    ByteCursor cursor(body, source_.fail());
    for (uint64_t i = 0; i < count; ++i) {
      cursor.skip(source_.length_width());
      const uint64_t child = cursor.take(source_.address_width());
      if (own_level > 0) {
        read_node(child, own_level - 1);
      } else {
        read_leaf(child);
      }
    }
  }

  void read_leaf(uint64_t address) {
    constexpr uint64_t kSoftLink = 2;
    if (++nodes_ > kMaxNodes) source_.refuse("a group without an end");
    const std::vector<std::byte> header = source_.read(address, 8);
    ByteCursor start(header, source_.fail());
    if (start.take_text(4) != "SNOD") source_.refuse("a group without its list of members");
    start.skip(2);
    const uint64_t count = start.take(2);
    const uint64_t entry = 2 * source_.address_width() + 24;
    const std::vector<std::byte> body = source_.read(address + 8, count * entry);
    ByteCursor cursor(body, source_.fail());
    for (uint64_t i = 0; i < count; ++i) {
      Hdf5Link link;
      link.name = heap_.name_at(cursor.take(source_.address_width()));
      link.address = cursor.take(source_.address_width());
      if (cursor.take(4) == kSoftLink) {
        source_.refuse_unsupported("a soft link \"" + link.name.substr(0, 80) + "\"");
      }
      cursor.skip(20);
      name_bytes_ += link.name.size();
      if (links_.size() >= kMaxLinks || name_bytes_ > kMaxNameBytes) {
        source_.refuse("a group of too many members");
      }
      links_.push_back(std::move(link));
    }
  }

  const Hdf5Source& source_;
  LocalHeap heap_;
  std::vector<Hdf5Link> links_;
  size_t nodes_ = 0;
  size_t name_bytes_ = 0;
};

Hdf5Link parse_link(const Hdf5Source& source, std::span<const std::byte> body) {
  ByteCursor cursor(body, source.fail());
  if (cursor.take(1) != 1) source.refuse("a link of an unknown version");
  const uint64_t flags = cursor.take(1);
  const uint64_t type = (flags & 8) != 0 ? cursor.take(1) : 0;
  if ((flags & 4) != 0) cursor.skip(8);   // creation order
  if ((flags & 16) != 0) cursor.skip(1);  // encoding
  Hdf5Link link;
  link.name = cursor.take_text(cursor.take(uint64_t{1} << (flags & 3)));
  if (type != 0) {
    source.refuse_unsupported("a soft or external link \"" + link.name.substr(0, 80) + "\"");
  }
  link.address = cursor.take(source.address_width());
  return link;
}

void check_not_dense(const Hdf5Source& source, const Hdf5Message& info) {
  ByteCursor cursor(info.body, source.fail());
  cursor.skip(1);
  const uint64_t flags = cursor.take(1);
  if ((flags & 1) != 0) cursor.skip(8);
  if (!source.is_undefined(cursor.take(source.address_width()))) {
    source.refuse_unsupported("a group kept in a fractal heap");
  }
}

}  // namespace

std::vector<Hdf5Link> read_hdf5_links(const Hdf5Source& source, const Hdf5Object& object) {
  std::vector<Hdf5Link> links;
  for (const Hdf5Message& message : object.messages) {
    if (message.type == kHdf5SymbolTable) {
      ByteCursor cursor(message.body, source.fail());
      const uint64_t tree = cursor.take(source.address_width());
      const uint64_t heap = cursor.take(source.address_width());
      std::vector<Hdf5Link> more = SymbolTable(source, heap).read(tree);
      links.insert(links.end(), more.begin(), more.end());
    } else if (message.type == kHdf5LinkInfo) {
      check_not_dense(source, message);
    } else if (message.type == kHdf5Link) {
      if (links.size() >= kMaxLinks) source.refuse("a group of too many members");
      links.push_back(parse_link(source, message.body));
    }
  }
  return links;
}

}  // namespace plimsoll::codec
