#include "data/sample_shape.h"

#include <algorithm>

#include "base/format.h"
#include "base/shape.h"

namespace plimsoll::data {
namespace {

using Sizes = std::vector<int64_t>;

constexpr const char* kInPython = ", in Python (x: the array that was saved):";

int64_t element_count(const Sizes& shape) { return fixed_shape(shape).element_count(1); }

// "16, 16, 3".
std::string list(const Sizes& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text;
}

// What to do, and a line of Python that does it; none: there is no one line.
struct Change {
  std::string what;
  std::string line{};
};

// Images of height, width and channels, or without the latter.
Change change_image(const Sizes& expected, Sizes received) {
  const int64_t channels = expected[2];
  Change change;
  std::string x = "x";
  if (received.size() == 3 && received[2] != channels && received[0] <= 4 && received[2] > 4) {
    change.what = "Move the channels to the end";
    x = "np.moveaxis(x, 1, -1)";
    std::rotate(received.begin(), received.begin() + 1, received.end());
  }
  if (received.size() == 2) {
    change.what = "Add an axis for the channels";
    x = "x[..., None]";
    received.push_back(1);
  }
  if (received[2] != channels && (received[2] == 1 || channels == 1)) {
    const bool gray = channels == 1;
    if (change.what.empty()) change.what = gray ? "Make them gray" : "Repeat the channel";
    x = gray ? x + ".mean(-1, keepdims=True)"
             : "np.repeat(" + x + ", " + std::to_string(channels) + ", -1)";
    received[2] = channels;
  }
  if (received[2] == 4 && channels == 3) {
    change.what += change.what.empty() ? "Leave the fourth channel out" : " without the fourth";
    x += "[..., :3]";
    received[2] = 3;
  }
  if (received[2] != channels) return {"Give them that shape, or the model that input."};
  if (received[0] != expected[0] || received[1] != expected[1]) {
    const std::string size = fmt::format("{} x {}", expected[0], expected[1]);
    change.what +=
        (change.what.empty() ? "Resize the images to " : ", and resize the images to ") + size;
    x = fmt::format("keras.ops.image.resize({}, ({}, {}))", x, expected[0], expected[1]);
  }
  return {change.what + kInPython, "x = " + x};
}

Change change_of(const Sizes& expected, const Sizes& received) {
  const bool images =
      expected.size() == 3 && (received.size() == 3 || received.size() == 2) && !is_flat(received);
  if (images) return change_image(expected, received);
  if (element_count(expected) == element_count(received)) {
    return {std::string("Reshape them") + kInPython, "x = x.reshape(-1, " + list(expected) + ")"};
  }
  if (is_flat(expected) && is_flat(received)) {
    return {fmt::format("Give each sample {} numbers, or the model an input of {}.",
                        element_count(expected), element_count(received))};
  }
  return {"Give them that shape, or the model that input."};
}

}  // namespace

bool is_same_shape(const Sizes& left, const Sizes& right) {
  Sizes a = left;
  Sizes b = right;
  std::erase(a, 1);
  std::erase(b, 1);
  return a == b;
}

bool is_flat(const Sizes& shape) {
  return std::ranges::count_if(shape, [](int64_t size) { return size != 1; }) < 2;
}

void check_sample_shape(const std::string& where, const Sizes& expected, const Sizes& received) {
  const bool as_many = element_count(expected) == element_count(received);
  const bool flat = is_flat(expected) || is_flat(received);  // their numbers have one order
  if (as_many && (flat || is_same_shape(expected, received))) return;
  const Change change = change_of(expected, received);
  throw WrongShape(where + ": expected samples of shape " + to_string(fixed_shape(expected)) +
                   ", as the model's input has it, received " + to_string(fixed_shape(received)) +
                   ". " + change.what + (change.line.empty() ? "" : "\n  " + change.line));
}

}  // namespace plimsoll::data
