#pragma once

// Records of a CSV file, one after another, from a buffer of fixed size.
//
// The dialect is what programs write: fields between delimiters, quoted by " where they hold one,
// "" for a quote inside, lines that end with LF or CRLF, a byte order mark in front. Blanks around
// a field are not part of it unless they are quoted. Lines of nothing are skipped. A record is at
// most 1 MiB. What fields mean is not decided here.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/byte_reader.h"

namespace plimsoll::codec {

class CsvReader {
 public:
  CsvReader(std::shared_ptr<const ByteReader> file, char delimiter);

  // Moves to the next record; false behind the last one. Throws kData naming the line where a quote
  // is not closed or a record is too long.
  bool next();
  // Of the current record; valid until the next one.
  std::span<const std::string_view> fields() const { return fields_; }
  // Line of the file on which the record begins, from 1.
  int64_t line() const { return line_; }
  const std::string& name() const { return file_->name(); }

 private:
  bool find_record();
  bool refill();
  void split(std::string_view record);
  std::string_view take_quoted(std::string_view record, size_t& at, char*& out);

  std::shared_ptr<const ByteReader> file_;
  char delimiter_;
  int64_t offset_ = 0;  // of the file's bytes behind the buffer
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is not yet handed out
  size_t end_ = 0;
  size_t record_end_ = 0;
  int64_t line_ = 0;
  int64_t next_line_ = 1;
  std::vector<char> unquoted_;
  std::vector<std::string_view> fields_;
};

// The delimiter among `,` `;` tab and `|` that occurs most often in the first line; a comma where
// none does.
char guess_delimiter(const ByteReader& file);

// The whole of `text` as a finite number: "1", "-2.5e3", "+4". False where it is none.
bool parse_number(std::string_view text, double& value);

}  // namespace plimsoll::codec
