#pragma once

// Reads the arguments of an optimizer, a loss or a metric by name, each with its default; what is
// left over is refused with a did-you-mean. Errors are kModel: "adam, beta_1: expected a number
// from 0.0 to 1.0, received 2.0."

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layers/config/config.h"

namespace plimsoll::layers {

// An argument that can be given, and its default (null: none).
struct Option {
  std::string name;
  Config fallback{};
  friend bool operator==(const Option&, const Option&) = default;
};

class OptionReader {
 public:
  // `what` is "adam" or "binary_crossentropy": it stands in front of messages. Options that are
  // read go to `options`, where somebody wants to list them.
  OptionReader(const Config::Object& arguments, std::string what,
               std::vector<Option>* options = nullptr)
      : arguments_(arguments), what_(std::move(what)), options_(options) {}

  double number(const std::string& key, double fallback, double least, double most);
  std::optional<double> optional_number(const std::string& key, double least, double most);
  // A number, or a list of some, also as Keras writes an array; none where there is no value.
  std::vector<double> numbers(const std::string& key, double least, double most);
  // A list of texts; none where there is no value.
  std::vector<std::string> texts(const std::string& key);
  bool flag(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  // Whether it is there and null.
  bool is_null(const std::string& key) const;
  // As it was given, whatever it is; "" where it is not there. It is not marked as read.
  std::string json(const std::string& key) const;
  // Read and not used.
  void ignore(const std::string& key);
  // Null, false or absent.
  void refuse_unless_empty(const std::string& key, const std::string& next_step);

  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const Config& received, const std::string& next_step = "") const;
  // Refuses what was not read.
  void finish() const;

 private:
  const Config* take(const std::string& key);
  void describe(const std::string& key, const Config& fallback);

  const Config::Object& arguments_;
  std::string what_;
  std::vector<Option>* options_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace plimsoll::layers
