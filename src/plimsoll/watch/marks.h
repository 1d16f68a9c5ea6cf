#pragma once

// Progress that a training program prints, counted: steps, epochs, fits.
//
// Read from the forms that Keras, tqdm, Lightning and hand-written loops use: "Epoch 3/5",
// "epoch: 3", "12/63 ━━━", " 42%|####  | 12/938 [", "step 120", "iter 5", "batch 7". What counts is
// how the numbers move, not what they are: a bar that starts again adds, a word that jumps by 100
// adds 100. The form that came first is followed; others are ignored, so nothing counts twice. A
// fit is a run of epochs that begins anew. Keras names no epoch where a fit has only one: there a
// bar that Keras ends, "63/63 ━━━ 1s 5ms/step" or "63/63 - 1s - 5ms/step", is an epoch and a fit;
// bars of another length than the first that ended (an evaluation's) are not.

#include <cstdint>
#include <string_view>

namespace plimsoll::watch {

class ProgressMarks {
 public:
  // One line, or one redrawing of a line, without terminal sequences.
  void read(std::string_view line);

  int64_t steps() const { return steps_; }
  int64_t epochs() const { return epochs_; }
  int64_t fits() const { return fits_; }

 private:
  enum class StepForm { kUnknown, kBar, kWord };
  void read_epoch(std::string_view line);
  bool read_bar(std::string_view line);
  void end_bar(std::string_view after, int64_t done, int64_t all);
  void read_word(std::string_view line);
  void count_steps(StepForm form, int64_t value);

  StepForm form_ = StepForm::kUnknown;
  int64_t steps_ = 0;
  int64_t last_step_ = 0;
  int64_t epochs_ = 0;
  int64_t last_epoch_ = -1;
  int64_t fits_ = 0;
  bool bar_ended_ = false;     // the last line of a bar was its whole
  int64_t unnamed_steps_ = 0;  // of the first bar that ended without an epoch's name
};

}  // namespace plimsoll::watch
