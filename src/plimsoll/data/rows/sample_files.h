#pragma once

// Files that a sample each is decoded from: images in a folder, or strings of bytes in a file of
// records.

#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "codec/byte_reader.h"

namespace plimsoll::data {

class SampleFiles {
 public:
  virtual ~SampleFiles() = default;
  // The path of all of them, for messages.
  virtual const std::string& path() const = 0;
  virtual int64_t count() const = 0;
  // What one is called, for messages.
  virtual std::string file(int64_t index) const = 0;
  // Called by several threads at once.
  virtual std::shared_ptr<const codec::FileReader> open(int64_t index) const = 0;
  virtual Bytes resident_bytes() const = 0;
};

}  // namespace plimsoll::data
