#pragma once

// Rows of what layers that look up give: of words and texts, and of whole numbers in any source.
//
// Texts are taken apart once, as the file is read, into an unlinked file of the numbers of their
// tokens; rows are made of these as they are asked for. So no text is in memory but the one that is
// being read. Whole numbers are looked up as their rows are read. Internal to data.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/lookup/field_ids.h"
#include "data/rows/row_source.h"

namespace plimsoll::data {

// Writes what a layer that looks up strings gives, sample by sample.
class TokenWriter {
 public:
  // The file lies in `folder`.
  TokenWriter(std::shared_ptr<FieldIds> ids, const std::string& folder);

  // The strings of a sample: one, or as many as the layer takes. Throws kData, naming the sample by
  // `where`, for a word that the layer has no number for.
  void add(const std::vector<std::string_view>& strings, const std::function<std::string()>& where);
  // The most that it held so far.
  int64_t peak_bytes() const { return peak_; }
  // Rows of what was added; nothing may be added afterwards. Throws kIo.
  std::unique_ptr<RowSource> finish(const std::string& origin);

 private:
  int64_t held_bytes() const;
  int64_t known(std::string_view word, const std::function<std::string()>& where) const;
  void put(int64_t id);
  void flush();

  std::shared_ptr<FieldIds> ids_;
  std::shared_ptr<File> tokens_;
  std::shared_ptr<File> ends_;  // of each sample's tokens; null where all have as many
  std::vector<int32_t> buffer_;
  std::vector<int64_t> end_buffer_;
  int64_t token_count_ = 0;  // that were added
  int64_t written_ = 0;      // of tokens
  int64_t ends_written_ = 0;
  int64_t rows_ = 0;
  int64_t peak_ = 0;
};

// Whole numbers of `source` looked up by a lookup that takes numbers. The table is counted in the
// rows. Throws kData where a sample has another number of values than the lookup takes.
std::unique_ptr<RowSource> look_up_rows(std::shared_ptr<RowSource> source,
                                        std::shared_ptr<const FieldIds> ids);

}  // namespace plimsoll::data
