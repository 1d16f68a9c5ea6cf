// Einstein's notation over values of samples and weights: "bij,bkj->bik", "...x,xy->...y".
//
// Operands are folded from left to right, two at a time. What is left of one of two operands and
// summed over the other is a product of matrices: of each sample's (batch_matmul), or with a weight
// (dense; dense_grad_input where the weight lies the other way round). A weight whose axes do not
// lie as a matrix, or that shares an axis with what is left, is repeated for every sample.

#include <algorithm>
#include <array>
#include <map>

#include "base/format.h"
#include "layers/kinds/operation_call.h"
#include "ops/rules.h"

namespace plimsoll::layers {
namespace {

constexpr size_t kMostText = 256;
constexpr size_t kMostOperands = 8;
constexpr std::string_view kNotMixed = "Samples are not mixed.";

using Dims = std::vector<int64_t>;

// A value, and a letter for each of its axes after the batch.
struct Term {
  ValueId value;
  std::string axes;
  bool batched = true;
};

bool has(std::string_view axes, char axis) { return axes.find(axis) != std::string_view::npos; }

class Einsum {
 public:
  Einsum(LayerContext& context, std::string_view text) : context_(context), text_(text) {}

  ValueId run(std::span<const ValueId> operands) {
    read(operands);
    Term whole = terms_[0];
    for (size_t i = 1; i < terms_.size(); ++i) {
      std::string later = output_;
      for (size_t j = i + 1; j < terms_.size(); ++j) later += terms_[j].axes;
      whole = contracted(whole, terms_[i], later);
    }
    whole = summed(whole, output_);
    if (!whole.batched) refuse("a value of samples among the operands");
    for (char axis : output_) {
      if (!has(whole.axes, axis)) refuse(fmt::format("the axis \"{}\" in an operand", axis));
    }
    return arranged(whole, output_).value;
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, std::string_view next = "") const {
    context_.refuse(expected, "\"" + text_.substr(0, 80) + "\"", next);
  }

  static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  // Reads the letters of operands and result; an ellipsis becomes the axes "0", "1", … that it
  // stands for.
  void read(std::span<const ValueId> operands) {
    std::string text;
    for (char c : text_) {
      if (c != ' ') text += c;
    }
    if (text.size() > kMostText || operands.empty() || operands.size() > kMostOperands) {
      refuse(fmt::format("up to {} operands and {} letters", kMostOperands, kMostText));
    }
    const size_t arrow = text.find("->");
    std::vector<std::string> parts = {""};
    for (char c : text.substr(0, arrow)) {
      if (c == ',') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    if (parts.size() != operands.size()) refuse(fmt::format("{} operands", operands.size()));
    std::vector<std::string> lists;
    for (size_t i = 0; i < parts.size(); ++i) {
      lists.push_back(spelled_out(parts[i], context_.type(operands[i]).shape.rank()));
    }
    std::string result = arrow == std::string::npos ? implied(lists) : text.substr(arrow + 2);
    result = with_ellipsis(result, ellipsis_);
    char batch = 0;
    for (size_t i = 0; i < lists.size(); ++i) read_term(operands[i], lists[i], batch);
    if (result.empty() || batch == 0 || result[0] != batch) {
      refuse("the batch first in the result", kNotMixed);
    }
    output_ = result.substr(1);
    expect_letters(output_);
    for (const Term& term : terms_) {
      if (has(term.axes, batch)) refuse("the batch first in every value of samples", kNotMixed);
    }
    if (has(output_, batch)) refuse("the batch once in the result", kNotMixed);
  }

  std::string with_ellipsis(const std::string& part, size_t axes) const {
    const size_t dots = part.find("...");
    if (dots == std::string::npos) return part;
    std::string names;
    for (size_t i = 0; i < axes; ++i) names += static_cast<char>('0' + i);
    return part.substr(0, dots) + names + part.substr(dots + 3);
  }

  std::string spelled_out(const std::string& part, int rank) {
    const size_t named = part.size() - (part.find("...") == std::string::npos ? 0 : 3);
    if (static_cast<int>(named) > rank ||
        (named == part.size() && static_cast<int>(named) != rank)) {
      refuse(fmt::format("letters for {} axes", rank));
    }
    const size_t axes = static_cast<size_t>(rank) - named;
    if (axes > 8) refuse("fewer axes");
    if (named != part.size()) {
      if (ellipsis_ != 0 && ellipsis_ != axes) refuse("as many axes in every ellipsis");
      ellipsis_ = axes;
    }
    return with_ellipsis(part, axes);
  }

  // Where "->" is missing, the result has the ellipsis, then what is named once, by the alphabet.
  static std::string implied(const std::vector<std::string>& lists) {
    std::map<char, int> seen;
    for (const std::string& list : lists) {
      for (char axis : list) ++seen[axis];
    }
    std::string digits;
    std::string letters;
    for (const auto& [axis, count] : seen) {
      if (!letter(axis)) digits += axis;
      if (letter(axis) && count == 1) letters += axis;
    }
    return digits + letters;
  }

  void expect_letters(std::string_view axes) const {
    for (size_t i = 0; i < axes.size(); ++i) {
      const bool known = letter(axes[i]) || (axes[i] >= '0' && axes[i] <= '9');
      if (!known || has(axes.substr(i + 1), axes[i])) {
        refuse("letters, each once in an operand and in the result");
      }
    }
  }

  void read_term(ValueId value, const std::string& list, char& batch) {
    const Shape shape = context_.type(value).shape;
    Term term{as_real(context_, value), list, shape.has_batch()};
    if (term.batched) {
      if (batch != 0 && list[0] != batch) refuse("one letter for the batch", kNotMixed);
      batch = list[0];
      term.axes = list.substr(1);
    }
    expect_letters(term.axes);
    const int first = term.batched ? 1 : 0;
    for (size_t i = 0; i < term.axes.size(); ++i) {
      const int64_t count = shape[static_cast<int>(i) + first].count;
      const auto [known, is_new] = extents_.emplace(term.axes[i], count);
      if (!is_new && known->second != count) {
        refuse(fmt::format("one extent along \"{}\", where there are {} and {}", term.axes[i],
                           known->second, count));
      }
    }
    terms_.push_back(term);
  }

  Dims dims(std::string_view axes) const {
    Dims result;
    for (char axis : axes) result.push_back(extents_.at(axis));
    return result;
  }
  int64_t size(std::string_view axes) const { return product_of(context_, dims(axes)); }

  // Sums over the axes that nobody needs any more.
  Term summed(const Term& term, std::string_view needed) {
    std::string left;
    Dims narrow;
    for (char axis : term.axes) {
      narrow.push_back(has(needed, axis) ? extents_.at(axis) : 1);
      if (has(needed, axis)) left += axis;
    }
    if (left == term.axes) return term;
    if (!term.batched) return summed(over_samples(term), needed);
    const ValueId y = context_.emit("sum_to", {term.value}, {{"shape", narrow}, {"batched", true}});
    return {reshaped(context_, y, dims(left)), left, true};
  }

  Term arranged(const Term& term, const std::string& axes) {
    Dims order;
    for (char axis : axes) order.push_back(static_cast<int64_t>(term.axes.find(axis)) + 1);
    return {permuted(context_, term.value, order), axes, term.batched};
  }

  // Repeats a weight for every sample.
  Term over_samples(const Term& term) {
    const ValueId y =
        context_.emit("broadcast", {term.value}, {{"shape", dims(term.axes)}, {"batched", true}});
    return {y, term.axes, true};
  }

  Term contracted(Term a, Term b, const std::string& later) {
    if (!a.batched && b.batched) std::swap(a, b);
    if (!a.batched) a = over_samples(a);
    a = summed(a, later + b.axes);
    if (b.batched || b.axes != only_needed(b.axes, later + a.axes)) {
      b = summed(b, later + a.axes);
    }
    Parts parts;
    for (char axis : a.axes) {
      if (!has(b.axes, axis)) {
        parts.left += axis;
      } else if (has(later, axis)) {
        parts.shared += axis;
      }
    }
    for (char axis : b.axes) {
      if (!has(a.axes, axis)) parts.right += axis;
      if (has(a.axes, axis) && !has(later, axis)) parts.summed += axis;
    }
    if (!b.batched && parts.shared.empty()) {
      const bool as_matrix = b.axes == parts.summed + parts.right;
      if (as_matrix || b.axes == parts.right + parts.summed) {
        return with_weight(a, b, parts, !as_matrix);
      }
    }
    if (!b.batched) b = over_samples(b);
    return parts.summed.empty() ? multiplied(a, b, parts) : of_matrices(a, b, parts);
  }

  static std::string only_needed(std::string_view axes, std::string_view needed) {
    std::string left;
    for (char axis : axes) {
      if (has(needed, axis)) left += axis;
    }
    return left;
  }

  struct Parts {
    std::string shared;  // in both and in the result
    std::string summed;  // in both
    std::string left;    // in one of them
    std::string right;
  };

  Term with_weight(const Term& a, const Term& b, const Parts& parts, bool transposed) {
    const int64_t inner = size(parts.summed);
    const int64_t units = size(parts.right);
    Dims rows = dims(parts.left);
    rows.push_back(inner);
    const ValueId x = reshaped(context_, arranged(a, parts.left + parts.summed).value, rows);
    const Dims matrix = transposed ? Dims{units, inner} : Dims{inner, units};
    const ValueId w = context_.emit("reshape", {b.value}, {{"shape", matrix}});
    const ValueId y = transposed ? context_.emit("dense_grad_input", {x, w}, {{"input_dim", units}})
                                 : context_.emit("dense", {x, w}, {{"units", units}});
    const std::string axes = parts.left + parts.right;
    return {reshaped(context_, y, dims(axes)), axes, true};
  }

  Term multiplied(const Term& a, const Term& b, const Parts& parts) {
    const std::string axes = parts.shared + parts.left + parts.right;
    const auto spread = [&](const Term& term, const std::string& own) {
      const ValueId x = arranged(term, parts.shared + own).value;
      Dims narrow;
      for (char axis : axes) narrow.push_back(has(term.axes, axis) ? extents_.at(axis) : 1);
      product_of(context_, dims(axes));
      const ValueId thin = reshaped(context_, x, narrow);
      if (narrow == dims(axes)) return thin;
      return context_.emit("broadcast", {thin}, {{"shape", dims(axes)}});
    };
    return {context_.emit("multiply", {spread(a, parts.left), spread(b, parts.right)}), axes, true};
  }

  Term of_matrices(const Term& a, const Term& b, const Parts& parts) {
    const int64_t steps = size(parts.shared);
    const auto matrices = [&](const Term& term, const std::string& rows,
                              const std::string& columns) {
      ValueId x = arranged(term, parts.shared + rows + columns).value;
      const Dims matrix = {size(rows), size(columns)};
      if (parts.shared.empty()) return reshaped(context_, x, matrix);
      x = reshaped(context_, x, {steps, matrix[0], matrix[1]});
      return context_.emit("fold_batch", {x});
    };
    const ValueId left = matrices(a, parts.left, parts.summed);
    const ValueId right = matrices(b, parts.summed, parts.right);
    ValueId y = context_.emit("batch_matmul", {left, right},
                              {{"transpose_left", false}, {"transpose_right", false}});
    if (!parts.shared.empty()) y = context_.emit("unfold_batch", {y}, {{"steps", steps}});
    const std::string axes = parts.shared + parts.left + parts.right;
    return {reshaped(context_, y, dims(axes)), axes, true};
  }

  LayerContext& context_;
  std::string text_;
  std::vector<Term> terms_;
  std::string output_;
  size_t ellipsis_ = 0;
  std::map<char, int64_t> extents_;
};

}  // namespace

ValueId einsum(LayerContext& context, std::string_view subscripts,
               std::span<const ValueId> operands) {
  return Einsum(context, subscripts).run(operands);
}

}  // namespace plimsoll::layers
