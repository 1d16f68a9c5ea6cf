#include "explain/conclude/torch_snapshot.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "explain/conclude/cause.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kMostStack = 200'000;
constexpr size_t kMostMemo = 400'000;
constexpr size_t kMostRecords = 60'000;
constexpr size_t kMostLists = 400'000;
constexpr size_t kMostStrings = 40'000;
constexpr size_t kMostStringBytes = size_t{3} << 20;
constexpr size_t kLongestString = 200;
constexpr size_t kMostHolders = 4'000;
constexpr int64_t kLargest = int64_t{1} << 50;

uint64_t little_endian(std::string_view bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// Sums of hostile figures stay where nothing overflows.
void add_bounded(int64_t& sum, int64_t value) { sum = std::min(sum + value, int64_t{1} << 57); }

int64_t bounded(int64_t value) { return std::clamp<int64_t>(value, 0, kLargest); }

}  // namespace

bool TorchSnapshotReader::recognizes(std::string_view head) {
  return head.size() >= 2 && static_cast<uint8_t>(head[0]) == 0x80 && head[1] >= 2 && head[1] <= 5;
}

void TorchSnapshotReader::feed(std::string_view bytes) {
  if (stopped_) return;
  if (skip_ > 0) {
    const uint64_t skipped = std::min<uint64_t>(skip_, bytes.size());
    skip_ -= skipped;
    bytes.remove_prefix(static_cast<size_t>(skipped));
  }
  buffer_.append(bytes);
  size_t at = 0;
  while (at < buffer_.size() && !stopped_) {
    const size_t length = step(std::string_view(buffer_).substr(at));
    if (length == 0) break;
    at += length;
    if (skip_ > 0) {
      const uint64_t skipped = std::min<uint64_t>(skip_, buffer_.size() - at);
      skip_ -= skipped;
      at += static_cast<size_t>(skipped);
    }
  }
  buffer_.erase(0, at);
}

void TorchSnapshotReader::push(Value value) {
  if (stack_.size() < kMostStack) {
    stack_.push_back(value);
  } else {
    stopped_ = sums_.partial = true;
  }
}

TorchSnapshotReader::Value TorchSnapshotReader::pop() {
  if (stack_.empty()) return {};
  const Value value = stack_.back();
  stack_.pop_back();
  return value;
}

size_t TorchSnapshotReader::mark_position() const {
  for (size_t i = stack_.size(); i-- > 0;) {
    if (stack_[i].kind == Kind::kMark) return i;
  }
  return stack_.size();
}

TorchSnapshotReader::Value TorchSnapshotReader::new_dict() {
  if (!free_records_.empty()) {
    const int32_t index = free_records_.back();
    free_records_.pop_back();
    records_[static_cast<size_t>(index)] = {};
    return {Kind::kDict, index};
  }
  if (records_.size() >= kMostRecords) {
    sums_.partial = true;
    return {Kind::kDict, -1};
  }
  records_.emplace_back();
  return {Kind::kDict, static_cast<int64_t>(records_.size()) - 1};
}

TorchSnapshotReader::Value TorchSnapshotReader::new_list() {
  if (lists_.size() >= kMostLists) return {Kind::kList, -1};
  lists_.push_back(-1);
  return {Kind::kList, static_cast<int64_t>(lists_.size()) - 1};
}

TorchSnapshotReader::Value TorchSnapshotReader::new_string(std::string_view text) {
  if (strings_.size() >= kMostStrings || string_bytes_ > kMostStringBytes) {
    return {Kind::kString, -1};
  }
  strings_.emplace_back(text.substr(0, kLongestString));
  string_bytes_ += strings_.back().size() + sizeof(std::string);
  return {Kind::kString, static_cast<int64_t>(strings_.size()) - 1};
}

std::string_view TorchSnapshotReader::string_at(int64_t index) const {
  return index >= 0 ? std::string_view(strings_[static_cast<size_t>(index)]) : std::string_view();
}

void TorchSnapshotReader::set_item(Record& record, const Value& key, const Value& value) {
  const std::string_view name = string_at(key.number);
  if (value.kind == Kind::kInteger) {
    if (name == "total_size") record.total_size = bounded(value.number);
    if (name == "size") record.size = bounded(value.number);
    if (name == "device_free") record.device_free = bounded(value.number);
    if (name == "line") record.line = bounded(value.number);
  } else if (value.kind == Kind::kString) {
    const int32_t text = static_cast<int32_t>(value.number);
    if (name == "state") record.state = text;
    if (name == "action") record.action = text;
    if (name == "name") record.name = text;
    if (name == "filename") record.filename = text;
  } else if (value.kind == Kind::kList && name == "frames" && value.number >= 0) {
    record.frames = lists_[static_cast<size_t>(value.number)];
  }
}

void TorchSnapshotReader::set_items(size_t mark) {
  if (mark > 0 && mark < stack_.size()) {
    const Value target = stack_[mark - 1];
    if (target.kind == Kind::kDict && target.number >= 0) {
      Record& record = records_[static_cast<size_t>(target.number)];
      for (size_t i = mark + 1; i + 1 < stack_.size(); i += 2) {
        if (stack_[i].kind == Kind::kString) set_item(record, stack_[i], stack_[i + 1]);
      }
    }
  }
  stack_.resize(std::min(mark, stack_.size()));
}

void TorchSnapshotReader::fold_block(const Record& record, std::string_view state) {
  ++sums_.blocks;
  if (state == "inactive") {
    add_bounded(sums_.idle_bytes, record.size);
    sums_.largest_idle = std::max(sums_.largest_idle, record.size);
    return;
  }
  add_bounded(sums_.allocated_bytes, record.size);
  if (record.frames < 0) return;
  const Record& frame = records_[static_cast<size_t>(record.frames)];
  std::string where(string_at(frame.filename));
  if (frame.line >= 0) where += fmt::format(":{}", frame.line);
  if (frame.name >= 0) where += " " + std::string(string_at(frame.name));
  if (sums_.holders.size() < kMostHolders || sums_.holders.contains(where)) {
    add_bounded(sums_.holders[where], record.size);
  }
}

// A dictionary that was put into a list is complete: a segment, a block, an event or a frame.
void TorchSnapshotReader::fold(Value value) {
  if (value.kind != Kind::kDict || value.number < 0) return;
  const Record& record = records_[static_cast<size_t>(value.number)];
  if (record.frame()) return;  // frames are shared by reference
  if (record.total_size >= 0) {
    ++sums_.segments;
    add_bounded(sums_.reserved_bytes, record.total_size);
  } else if (record.state >= 0 && record.size >= 0) {
    fold_block(record, string_at(record.state));
  } else if (string_at(record.action) == "oom") {
    ++sums_.ooms;
    sums_.oom_bytes = std::max<int64_t>(record.size, 0);
    sums_.oom_device_free = record.device_free;
  }
  if (free_records_.size() < kMostRecords) {
    free_records_.push_back(static_cast<int32_t>(value.number));
  }
}

void TorchSnapshotReader::append_items(size_t mark) {
  if (mark > 0 && mark < stack_.size()) {
    const Value list = stack_[mark - 1];
    for (size_t i = mark + 1; i < stack_.size(); ++i) {
      const Value value = stack_[i];
      const bool kept = value.kind == Kind::kDict && value.number >= 0;
      if (kept && list.kind == Kind::kList && list.number >= 0 &&
          lists_[static_cast<size_t>(list.number)] < 0 &&
          records_[static_cast<size_t>(value.number)].frame()) {
        lists_[static_cast<size_t>(list.number)] = static_cast<int32_t>(value.number);
      }
      fold(value);
    }
  }
  stack_.resize(std::min(mark, stack_.size()));
}

void TorchSnapshotReader::memoize(uint64_t index) {
  if (index >= kMostMemo || stack_.empty()) return;
  if (memo_.size() <= index) memo_.resize(static_cast<size_t>(index) + 1);
  memo_[static_cast<size_t>(index)] = stack_.back();
}

void TorchSnapshotReader::recall(uint64_t index) {
  push(index < memo_.size() ? memo_[static_cast<size_t>(index)] : Value{});
}

// Strings and byte strings after a length; long ones are skipped, not stored.
size_t TorchSnapshotReader::step_string(std::string_view bytes, size_t length_bytes) {
  if (bytes.size() < 1 + length_bytes) return 0;
  const uint64_t length = little_endian(bytes, 1, length_bytes);
  const size_t head = 1 + length_bytes;
  if (length > 4096) {
    push({Kind::kString, -1});
    skip_ = length;
    return head;
  }
  if (bytes.size() < head + length) return 0;
  push(new_string(bytes.substr(head, static_cast<size_t>(length))));
  return head + static_cast<size_t>(length);
}

bool TorchSnapshotReader::step_constant(uint8_t opcode) {
  switch (opcode) {
    case '}':
      push(new_dict());
      return true;
    case ']':
      push(new_list());
      return true;
    case '(':
      push({Kind::kMark, 0});
      return true;
    case 0x88:
    case 0x89:
      push({Kind::kInteger, opcode == 0x88 ? 1 : 0});
      return true;
    case ')':   // empty tuple
    case 0x8f:  // empty set
    case 'N':
      push({});
      return true;
    default:
      return false;
  }
}

bool TorchSnapshotReader::step_structure(uint8_t opcode) {
  switch (opcode) {
    case 's':
    case 'a': {
      const size_t items = opcode == 's' ? 2 : 1;
      if (stack_.size() < items) return false;
      stack_.insert(stack_.end() - static_cast<std::ptrdiff_t>(items), {Kind::kMark, 0});
      const size_t mark = stack_.size() - items - 1;
      opcode == 's' ? set_items(mark) : append_items(mark);
      return true;
    }
    case 'u':
      set_items(mark_position());
      return true;
    case 'e':
    case 0x90:
      append_items(mark_position());
      return true;
    case 't':
    case 'l':
    case 'd':
    case 0x91:
      stack_.resize(std::min(mark_position(), stack_.size()));
      push({});
      return true;
    case 0x85:
    case 0x86:
    case 0x87:
      for (int i = 0; i < opcode - 0x84; ++i) pop();
      push({});
      return true;
    case '0':
      pop();
      return true;
    case '1':
      stack_.resize(std::min(mark_position(), stack_.size()));
      return true;
    case '2':
      push(stack_.empty() ? Value{} : stack_.back());
      return true;
    default:
      return false;
  }
}

// Opcodes with a fixed or counted number after them.
size_t TorchSnapshotReader::step_counted(std::string_view bytes) {
  const uint8_t opcode = static_cast<uint8_t>(bytes[0]);
  static constexpr std::pair<uint8_t, size_t> kSizes[] = {{0x80, 2}, {0x95, 9}, {'K', 2}, {'M', 3},
                                                          {'J', 5},  {'G', 9},  {'h', 2}, {'j', 5},
                                                          {'q', 2},  {'r', 5},  {0x8a, 2}};
  for (const auto& [code, size] : kSizes) {
    if (code != opcode) continue;
    if (bytes.size() < size) return 0;
    const uint64_t number = little_endian(bytes, 1, std::min<size_t>(size - 1, 8));
    if (opcode == 'K' || opcode == 'M') push({Kind::kInteger, static_cast<int64_t>(number)});
    if (opcode == 'J') {
      push({Kind::kInteger, static_cast<int32_t>(static_cast<uint32_t>(number))});
    }
    if (opcode == 'G') push({});
    if (opcode == 'h' || opcode == 'j') recall(number);
    if (opcode == 'q' || opcode == 'r') memoize(number);
    if (opcode == 0x8a) {  // LONG1: sizes beyond 2 GiB
      const size_t length = static_cast<size_t>(number);
      if (bytes.size() < 2 + length) return 0;
      const bool fits = length <= 8 && (length < 8 || static_cast<int8_t>(bytes[1 + length]) >= 0);
      push(fits ? Value{Kind::kInteger, static_cast<int64_t>(little_endian(bytes, 2, length))}
                : Value{});
      return 2 + length;
    }
    return size;
  }
  stopped_ = sums_.foreign = true;
  return 1;
}

size_t TorchSnapshotReader::step(std::string_view bytes) {
  const uint8_t opcode = static_cast<uint8_t>(bytes[0]);
  switch (opcode) {
    case '.':
      stopped_ = true;
      return 1;
    case 0x94:
      memoize(memo_.size());
      return 1;
    case 0x8c:
    case 'C':
    case 'U':
      return step_string(bytes, 1);
    case 'X':
    case 'B':
    case 'T':
      return step_string(bytes, 4);
    case 0x8d:
    case 0x8e:
      return step_string(bytes, 8);
    default:
      break;
  }
  if (step_constant(opcode) || step_structure(opcode)) return 1;
  return step_counted(bytes);
}

}  // namespace plimsoll::explain
