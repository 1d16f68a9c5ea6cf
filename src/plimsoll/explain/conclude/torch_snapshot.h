#pragma once

// PyTorch's memory snapshots (`torch.cuda.memory._dump_snapshot`): a pickle of plain data.
//
// The reader is a machine for the opcodes of plain data only. It builds no objects and runs no
// code: an opcode that names a class or calls something ends the reading. Blocks and trace events
// are folded into sums as they come, so memory is bounded; what exceeds the bounds makes the result
// partial, never wrong. Truncated or malformed files give what was read before.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "explain/explanation.h"

namespace plimsoll::explain {

// What a snapshot adds up to.
struct SnapshotSums {
  int64_t segments = 0;
  int64_t reserved_bytes = 0;   // of all segments
  int64_t allocated_bytes = 0;  // in live blocks
  int64_t idle_bytes = 0;       // in blocks that are free
  int64_t largest_idle = 0;
  int64_t blocks = 0;
  int64_t ooms = 0;
  int64_t oom_bytes = 0;  // the last refused request
  int64_t oom_device_free = -1;
  bool partial = false;                    // bounds were reached, or the file is cut
  bool foreign = false;                    // a pickle, but not of plain data
  std::map<std::string, int64_t> holders;  // live bytes by the line that allocated them
};

class TorchSnapshotReader {
 public:
  static bool recognizes(std::string_view head);

  void feed(std::string_view bytes);
  Explanation finish() const;
  const SnapshotSums& sums() const { return sums_; }

 private:
  enum class Kind : uint8_t { kNone, kMark, kInteger, kString, kDict, kList };
  struct Value {
    Kind kind = Kind::kNone;
    int64_t number = 0;  // the integer, or an index; -1: not kept
  };
  // The known keys of one dictionary; -1: absent.
  struct Record {
    int64_t total_size = -1, size = -1, device_free = -1, line = -1;
    int32_t state = -1, action = -1, name = -1, filename = -1, frames = -1;
    bool frame() const { return name >= 0 || filename >= 0; }
  };

  // Executes the opcode at the front of `bytes`; 0 if more bytes are needed, else its length.
  size_t step(std::string_view bytes);
  size_t step_string(std::string_view bytes, size_t length_bytes);
  bool step_structure(uint8_t opcode);
  bool step_constant(uint8_t opcode);
  size_t step_counted(std::string_view bytes);
  void push(Value value);
  Value pop();
  size_t mark_position() const;
  Value new_dict();
  Value new_list();
  Value new_string(std::string_view text);
  void set_items(size_t mark);
  void set_item(Record& record, const Value& key, const Value& value);
  void append_items(size_t mark);
  void fold(Value value);
  void fold_block(const Record& record, std::string_view state);
  void memoize(uint64_t index);
  void recall(uint64_t index);
  std::string_view string_at(int64_t index) const;

  std::string buffer_;
  uint64_t skip_ = 0;
  bool stopped_ = false;
  std::vector<Value> stack_;
  std::vector<Value> memo_;
  std::vector<Record> records_;
  std::vector<int32_t> free_records_;
  std::vector<int32_t> lists_;  // the first frame record in it
  std::vector<std::string> strings_;
  size_t string_bytes_ = 0;
  SnapshotSums sums_;
};

}  // namespace plimsoll::explain
