#pragma once

// Records of a CSV file, one after another, from a buffer of fixed size.
//
// The dialect is what programs write: fields between delimiters, quoted by " where they hold one,
// "" for a quote inside, lines that end with LF or CRLF, a byte order mark in front; above the
// records Excel's line `sep=;` and lines that begin with #. Blanks around a field are not part of
// it unless they are quoted; where blanks are the delimiter, a run of them is one. Lines of nothing
// are skipped. A record is at most 1 MiB. What fields mean is not decided here.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/byte_reader.h"

namespace plimsoll::codec {

// How a file's records are told apart, and where the first one begins.
struct CsvDialect {
  char delimiter = ',';        // a blank: any run of blanks and tabs
  int64_t start = 0;           // offset of the first record
  int64_t first_line = 1;      // its line
  int64_t comments = 0;        // lines above it that are comments
  std::string last_comment{};  // without its #
  friend bool operator==(const CsvDialect&, const CsvDialect&) = default;
};

// Looks at the first lines. The delimiter is the one among `,` `;` tab and `|` that occurs most
// often in the first record, outside of quotes; blanks where there are none but between numbers; a
// comma where nothing occurs.
CsvDialect find_dialect(const ByteReader& file);

class CsvReader {
 public:
  static constexpr size_t kMaxFields = 65'536;  // of a record

  CsvReader(std::shared_ptr<const ByteReader> file, const CsvDialect& dialect);

  // Moves to the next record; false after the last one. Throws kData naming the line where a quote
  // is not closed or a record is too long.
  bool next();
  // They are the current record's, valid until the next one.
  std::span<const std::string_view> fields() const { return fields_; }
  // The same with the blanks around what is not quoted.
  std::span<const std::string_view> fields_as_written() const { return written_; }
  // Line of the file on which the record begins, from 1.
  int64_t line() const { return line_; }
  const std::string& name() const { return file_->name(); }
  // What it has come to hold for the records so far.
  int64_t held_bytes() const {
    return static_cast<int64_t>(buffer_.capacity() + unquoted_.capacity() +
                                (fields_.capacity() + written_.capacity()) *
                                    sizeof(std::string_view));
  }

 private:
  bool find_record();
  bool refill();
  void split(std::string_view record);
  void split_blanks(std::string_view record);
  void add_field(std::string_view field, std::string_view written);
  std::string_view take_quoted(std::string_view record, size_t& at, char*& out);

  std::shared_ptr<const ByteReader> file_;
  char delimiter_;
  int64_t offset_ = 0;  // of the file's bytes after the buffer
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is not yet handed out
  size_t end_ = 0;
  size_t record_end_ = 0;
  int64_t line_ = 0;
  int64_t next_line_ = 1;
  std::vector<char> unquoted_;
  std::vector<std::string_view> fields_;
  std::vector<std::string_view> written_;
};

// The fields of one line, for what stands in a comment: quotes part nothing and are left out.
std::vector<std::string> split_csv_line(std::string_view line, char delimiter);

// The whole of `text` as a finite number: "1", "-2.5e3", "+4". False where it is none.
bool parse_number(std::string_view text, double& value);

}  // namespace plimsoll::codec
