#pragma once

// Reads a failure log of any length as it comes and explains it.
//
//   Explainer explainer;
//   while (read(block)) explainer.feed(block);
//   Explanation explanation = explainer.finish();
//
// Memory stays below a few MiB whatever is fed: lines are sieved (patterns.h), counted (counters.h)
// or kept within budgets (excerpt.h), and only what was kept is parsed, in finish(). Input need not
// be text; nothing in it makes feed() or finish() throw. A memory snapshot of PyTorch (a pickle) is
// recognised by its first bytes and read by a machine that executes nothing (torch_snapshot.h).

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "explain/conclude/model_shapes.h"
#include "explain/explanation.h"

namespace plimsoll::explain {

class Explainer {
 public:
  // `model`: layers to match a refused tensor's shape with; empty without --model.
  explicit Explainer(ModelShapes model = {});
  ~Explainer();
  Explainer(Explainer&&) noexcept;
  Explainer& operator=(Explainer&&) noexcept;

  void feed(std::string_view bytes);

  // Ends the log. Called once.
  Explanation finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The whole log at once.
Explanation explain_text(std::string_view log, ModelShapes model = {});

}  // namespace plimsoll::explain
