#include "codec/hdf5/hdf5_reader.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "base/format.h"
#include "base/suggest.h"
#include "codec/hdf5/hdf5_data.h"
#include "codec/hdf5/hdf5_object.h"
#include "codec/hdf5/hdf5_source.h"

namespace plimsoll::codec {
namespace {

constexpr size_t kMaxPathParts = 64;
constexpr size_t kMaxVisited = 200'000;
constexpr size_t kMaxPathBytes = 16 << 20;  // of all datasets that are listed
constexpr size_t kKeptGroups = 8;
constexpr size_t kMaxKeptBytes = 1 << 20;  // of each

std::vector<std::string_view> split_path(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t at = std::min(path.find('/'), path.size());
    if (at > 0) parts.push_back(path.substr(0, at));
    path.remove_prefix(std::min(at + 1, path.size()));
  }
  return parts;
}

std::string join_path(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

}  // namespace

class Hdf5Reader::Impl {
 public:
  explicit Impl(std::shared_ptr<const ByteReader> file)
      : source_(std::make_shared<const Hdf5Source>(std::move(file))) {}

  const std::shared_ptr<const Hdf5Source>& source() const { return source_; }

  Hdf5Object load(uint64_t address) const { return read_hdf5_object(*source_, address); }

  std::vector<Hdf5Link> links(const Hdf5Object& object) const {
    std::vector<Hdf5Link> links = read_hdf5_links(*source_, object);
    std::stable_sort(links.begin(), links.end(),
                     [](const Hdf5Link& a, const Hdf5Link& b) { return a.name < b.name; });
    return links;
  }

  std::optional<uint64_t> find_address(std::string_view path) const {
    const std::vector<std::string_view> parts = split_path(path);
    if (parts.size() > kMaxPathParts) return std::nullopt;
    uint64_t address = source_->root_address();
    for (std::string_view part : parts) {
      const Members members = group(address);
      if (members == nullptr) return std::nullopt;
      const auto found = std::lower_bound(
          members->begin(), members->end(), part,
          [](const Hdf5Link& link, std::string_view name) { return link.name < name; });
      if (found == members->end() || found->name != part) return std::nullopt;
      address = found->address;
    }
    return address;
  }

  std::optional<Hdf5Object> find(std::string_view path) const {
    const std::optional<uint64_t> address = find_address(path);
    if (!address) return std::nullopt;
    return load(*address);
  }

  Hdf5Object need(std::string_view path) const {
    std::optional<Hdf5Object> object = find(path);
    if (object) return *std::move(object);
    throw Error(ErrorKind::kModel, source_->name() + ": expected an object \"" + std::string(path) +
                                       "\" in the file, received none." + suggest(path));
  }

  Hdf5Object need_dataset(std::string_view path) const {
    Hdf5Object object = need(path);
    if (object.is_dataset()) return object;
    throw Error(ErrorKind::kModel, source_->name() + ": expected a dataset \"" + std::string(path) +
                                       "\", received a group.");
  }

  // What listing has come to.
  struct Listing {
    size_t visited = 0;
    size_t path_bytes = 0;
    std::vector<uint64_t> ancestors{};
    std::vector<std::string> datasets{};
  };

  void collect(uint64_t address, const std::string& path, Listing& listing) const {
    std::vector<uint64_t>& ancestors = listing.ancestors;
    if (++listing.visited > kMaxVisited) source_->refuse("more objects than a model can have");
    if (std::find(ancestors.begin(), ancestors.end(), address) != ancestors.end()) {
      source_->refuse("a group \"" + path.substr(0, 80) + "\" that contains itself");
    }
    if (ancestors.size() >= kMaxPathParts) source_->refuse("groups nested too deeply");
    const Hdf5Object object = load(address);
    if (object.is_dataset()) {
      listing.path_bytes += path.size() + sizeof(std::string);
      if (listing.path_bytes > kMaxPathBytes) {
        source_->refuse(fmt::format("paths of more than {} bytes", kMaxPathBytes));
      }
      listing.datasets.push_back(path);
      return;
    }
    if (!object.is_group()) return;  // a named type
    ancestors.push_back(address);
    for (const Hdf5Link& link : links(object)) {
      collect(link.address, join_path(path, link.name), listing);
    }
    ancestors.pop_back();
  }

 private:
  using Members = std::shared_ptr<const std::vector<Hdf5Link>>;

  // Members of the group at an address, by name; null where no group is there. Those of the groups
  // that were asked for last are kept: a model's weights are looked up one by one along one path.
  Members group(uint64_t address) const {
    const std::lock_guard lock(mutex_);
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
      if (kept->first != address) continue;
      kept_.splice(kept_.begin(), kept_, kept);
      return kept->second;
    }
    const Hdf5Object object = load(address);
    if (!object.is_group()) return nullptr;
    auto members = std::make_shared<const std::vector<Hdf5Link>>(links(object));
    size_t bytes = 0;
    for (const Hdf5Link& member : *members) bytes += sizeof member + member.name.size();
    if (bytes > kMaxKeptBytes) return members;
    if (kept_.size() == kKeptGroups) kept_.pop_back();
    kept_.emplace_front(address, members);
    return members;
  }

  // The nearest name in the last group on the path that exists.
  std::string suggest(std::string_view path) const {
    const std::vector<std::string_view> parts = split_path(path);
    std::string folder;
    for (std::string_view part : parts) {
      const std::string next = join_path(folder, std::string(part));
      if (find_address(next)) {
        folder = next;
        continue;
      }
      std::vector<std::string> names;
      const Hdf5Object object = need(folder);
      if (!object.is_group()) return "";
      for (const Hdf5Link& link : links(object)) names.push_back(link.name);
      return did_you_mean(part, names);
    }
    return "";
  }

  std::shared_ptr<const Hdf5Source> source_;
  mutable std::mutex mutex_;
  mutable std::list<std::pair<uint64_t, Members>> kept_;  // the last one first
};

Hdf5Reader::Hdf5Reader(std::shared_ptr<const ByteReader> file)
    : impl_(std::make_shared<const Impl>(std::move(file))) {}
Hdf5Reader::Hdf5Reader(Hdf5Reader&&) noexcept = default;
Hdf5Reader::~Hdf5Reader() = default;

const std::string& Hdf5Reader::name() const { return impl_->source()->name(); }

bool Hdf5Reader::exists(std::string_view path) const {
  return impl_->find_address(path).has_value();
}

bool Hdf5Reader::is_group(std::string_view path) const {
  const std::optional<Hdf5Object> object = impl_->find(path);
  return object && object->is_group();
}

bool Hdf5Reader::is_dataset(std::string_view path) const {
  const std::optional<Hdf5Object> object = impl_->find(path);
  return object && object->is_dataset();
}

std::vector<std::string> Hdf5Reader::list(std::string_view path) const {
  const Hdf5Object object = impl_->need(path);
  if (!object.is_group()) {
    throw Error(ErrorKind::kModel,
                name() + ": expected a group \"" + std::string(path) + "\", received a dataset.");
  }
  std::vector<std::string> names;
  for (Hdf5Link& link : impl_->links(object)) names.push_back(std::move(link.name));
  return names;
}

std::vector<std::string> Hdf5Reader::list_datasets(std::string_view path) const {
  impl_->need(path);
  std::string start;
  for (std::string_view part : split_path(path)) start = join_path(start, std::string(part));
  Impl::Listing listing;
  impl_->collect(*impl_->find_address(path), start, listing);
  return std::move(listing.datasets);
}

std::vector<Hdf5Attribute> Hdf5Reader::attributes(std::string_view path) const {
  std::vector<Hdf5Attribute> attributes = read_hdf5_attributes(*impl_->source(), impl_->need(path));
  std::stable_sort(attributes.begin(), attributes.end(),
                   [](const Hdf5Attribute& a, const Hdf5Attribute& b) { return a.name < b.name; });
  return attributes;
}

std::optional<Hdf5Attribute> Hdf5Reader::attribute(std::string_view path,
                                                   std::string_view name) const {
  for (Hdf5Attribute& attribute : attributes(path)) {
    if (attribute.name == name) return std::move(attribute);
  }
  return std::nullopt;
}

std::optional<std::string> Hdf5Reader::text_attribute(std::string_view path,
                                                      std::string_view name) const {
  std::optional<Hdf5Attribute> found = attribute(path, name);
  if (!found) return std::nullopt;
  if (found->strings.size() != 1) {
    throw Error(ErrorKind::kModel, this->name() + ": expected attribute \"" + std::string(name) +
                                       "\" to be one text, received something else.");
  }
  return std::move(found->strings.front());
}

std::optional<std::vector<std::string>> Hdf5Reader::texts_attribute(std::string_view path,
                                                                    std::string_view name) const {
  std::vector<Hdf5Attribute> all = attributes(path);
  const auto find = [&](const std::string& wanted) -> Hdf5Attribute* {
    for (Hdf5Attribute& attribute : all) {
      if (attribute.name == wanted) return &attribute;
    }
    return nullptr;
  };
  const auto texts = [&](Hdf5Attribute& attribute) {
    const bool numbers = attribute.type.type_class == Hdf5Type::Class::kNumber;
    // An empty list is written as an empty array of float64 by h5py.
    if (attribute.type.type_class == Hdf5Type::Class::kOther ||
        (numbers && !attribute.raw.empty())) {
      throw Error(ErrorKind::kModel, this->name() + ": expected attribute \"" + attribute.name +
                                         "\" to be a list of texts, received something else.");
    }
    return std::move(attribute.strings);
  };
  if (Hdf5Attribute* whole = find(std::string(name))) return texts(*whole);
  std::vector<std::string> joined;
  for (size_t i = 0;; ++i) {
    Hdf5Attribute* part = find(fmt::format("{}{}", name, i));
    if (part == nullptr) return i == 0 ? std::nullopt : std::optional(std::move(joined));
    for (std::string& text : texts(*part)) joined.push_back(std::move(text));
  }
}

Hdf5Type Hdf5Reader::type(std::string_view path) const {
  const Hdf5Object object = impl_->need_dataset(path);
  return parse_hdf5_type(*impl_->source(),
                         need_hdf5_message(*impl_->source(), object, kHdf5Datatype, "type"));
}

std::unique_ptr<Hdf5Dataset> Hdf5Reader::open(std::string_view path,
                                              const std::string& folder) const {
  return open_hdf5_data(impl_->source(), impl_->need_dataset(path), std::string(path), folder);
}

bool looks_like_hdf5(const ByteReader& file) { return find_hdf5_signature(file).has_value(); }

}  // namespace plimsoll::codec
