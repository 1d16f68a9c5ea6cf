#include "explain/explainer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "explain/conclude/conclude.h"
#include "explain/conclude/torch_snapshot.h"
#include "explain/read/counters.h"
#include "explain/read/document.h"
#include "explain/read/envelope.h"
#include "explain/read/exception_line.h"
#include "explain/read/excerpt.h"
#include "explain/read/further_progress.h"
#include "explain/read/patterns.h"
#include "explain/read/task_table.h"
#include "explain/read/utf16.h"

namespace plimsoll::explain {

namespace {

ClassMask fresh_hits(std::string_view text) {
  return PatternScanner(PatternAutomaton::shared()).scan(text);
}

// The classes of the clean line too, where blanks or escapes may stand within a word or between
// two.
ClassMask hits_undisguised(std::string_view text, ClassMask hits) {
  std::string clean = clean_line(text);
  std::string joined = clean;
  std::erase(joined, kSoftBreak);
  hits |= fresh_hits(joined);
  if (joined.size() != clean.size()) {
    std::replace(clean.begin(), clean.end(), kSoftBreak, ' ');
    hits |= fresh_hits(clean);
  }
  if (Envelope::opens(clean)) {
    for (const std::string& line : Envelope(clean).lines()) hits |= fresh_hits(line);
  }
  return hits & ~mask_of(LineClass::kDisguise);
}

constexpr size_t kScanBytes = size_t{1} << 16;
// No pattern of a counted class is as long.
constexpr size_t kFront = 64;

// What may be part of the report of a refusal, and so is no progress.
constexpr ClassMask kReport =
    mask_of(LineClass::kFailure) | mask_of(LineClass::kTorch) | mask_of(LineClass::kKernel) |
    mask_of(LineClass::kLimits) | mask_of(LineClass::kKilled) | mask_of(LineClass::kDriver) |
    mask_of(LineClass::kPool) | mask_of(LineClass::kXla) | mask_of(LineClass::kNode) |
    mask_of(LineClass::kTensorList) | mask_of(LineClass::kHost) | mask_of(LineClass::kChunk) |
    mask_of(LineClass::kTrace);

}  // namespace

struct Explainer::State {
  explicit State(ModelShapes shapes)
      : model(std::move(shapes)), scanner(PatternAutomaton::shared()) {}

  void feed_text(std::string_view bytes);
  void feed_block(std::string_view block);
  void hand_on(std::string_view bytes) {
    if (snapshot) return snapshot->feed(bytes);
    wide ? feed_text(wide->decode(bytes)) : feed_text(bytes);
  }
  void take_segment(std::string_view piece, bool ends_line);
  void follow(std::string_view text, ClassMask hits);

  ModelShapes model;
  // What the sieve found in the segment that is being put together.
  struct Found {
    ClassMask hits = 0;
    bool chunk_within = false;  // a pattern that cannot have begun in the line before
  };

  PatternScanner scanner;
  Found found;
  Excerpt excerpt;
  ChunkCounter chunks;
  MemorySeries series;
  MemorySeries device_series{MemorySeries::Kind::kDevice};
  FurtherProgressReader further_progress;
  TaskTableReader tasks;
  std::optional<TorchSnapshotReader> snapshot;
  std::optional<Utf16Decoder> wide;  // what PowerShell writes with ">"
  std::string pending;               // the beginning of a segment that a block's end cut
  std::string opening;               // first bytes, until it is known what they are
  bool opened = false;
  int64_t line = 1;
  int32_t segment = 0;
  int64_t bytes_read = 0;
};

void Explainer::State::take_segment(std::string_view piece, bool ends_line) {
  std::string_view text = piece;
  if (!pending.empty()) {
    pending.append(piece);
    text = pending;
  }
  if (ends_line && !text.empty() && text.back() == '\r') text.remove_suffix(1);
  const Found sieved = std::exchange(found, {});
  ClassMask hits = sieved.hits;
  if (hits & mask_of(LineClass::kDisguise)) hits = hits_undisguised(text, hits);
  if ((hits & mask_of(LineClass::kError)) != 0 && !may_name_exception(text)) {
    hits &= ~mask_of(LineClass::kError);
  }
  if (hits & mask_of(LineClass::kChunk)) {
    const std::string_view front = text.substr(0, kFront);
    if (sieved.chunk_within || (fresh_hits(front) & mask_of(LineClass::kChunk)) != 0) {
      chunks.add(line, text);
    } else {  // the word that was found begins in the line before
      chunks.add(line, std::string(excerpt.last_text()).append(text));
    }
  } else if (chunks.waits()) {
    chunks.add_after(text, starts_record(text));
  }
  if (hits & mask_of(LineClass::kSeries)) {
    series.add(line, text);
    device_series.add(line, text);
  }
  if ((hits & mask_of(LineClass::kKernel)) != 0 &&
      text.find("total_vm") != std::string_view::npos) {
    tasks.head(line, plain_text(text));
  } else if (tasks.waits()) {
    tasks.add(plain_text(text));
  }
  // An exception's name amid further progress that is followed is part of neither.
  const bool error = (hits & mask_of(LineClass::kError)) != 0 && !further_progress.waits();
  if (error && (hits & kReport) == 0) {
    further_progress.refuse(line);
  } else if (further_progress.waits() || (hits & kReport) != 0) {
    follow(text, hits);
  }
  excerpt.add(line, segment, ends_line, text, hits);
  pending.clear();
  if (ends_line) {
    ++line;
    segment = 0;
  } else {
    ++segment;
  }
}

// Looks for progress after refusals; a carriage return starts a line again.
void Explainer::State::follow(std::string_view text, ClassMask hits) {
  const bool one_line = text.find('\r') == std::string_view::npos;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('\r'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (((one_line ? hits : fresh_hits(part)) & kReport) != 0) {
      further_progress.refuse(line);
    } else {
      further_progress.read(line, part);
    }
  }
}

void Explainer::State::feed_text(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view block = bytes.substr(0, kScanBytes);
    feed_block(block);
    bytes.remove_prefix(block.size());
  }
}

void Explainer::State::feed_block(std::string_view block) {
  const std::span<const PatternHit> hits = scanner.scan_block(block);
  auto hit = hits.begin();
  for (size_t at = 0; at < block.size();) {
    const size_t room = kSegmentBytes - pending.size();
    const size_t reach = std::min(room, block.size() - at);
    const void* end = std::memchr(block.data() + at, '\n', reach);
    const size_t length =
        end == nullptr ? reach
                       : static_cast<size_t>(static_cast<const char*>(end) - block.data()) - at;
    for (; hit != hits.end() && hit->at < at + length; ++hit) {
      found.hits |= hit->classes;
      const bool deep = pending.size() + (hit->at - at) >= kFront;
      found.chunk_within |= deep && (hit->classes & mask_of(LineClass::kChunk)) != 0;
    }
    const std::string_view piece = block.substr(at, length);
    at += length;
    if (end != nullptr) {
      take_segment(piece, true);
      ++at;
    } else if (reach == room) {
      take_segment(piece, false);
    } else {
      pending.append(piece);
    }
  }
}

Explainer::Explainer(ModelShapes model) : state_(std::make_unique<State>(std::move(model))) {}
Explainer::~Explainer() = default;
Explainer::Explainer(Explainer&&) noexcept = default;
Explainer& Explainer::operator=(Explainer&&) noexcept = default;

void Explainer::feed(std::string_view bytes) {
  State& state = *state_;
  state.bytes_read += static_cast<int64_t>(bytes.size());
  if (!state.opened) {
    if (state.opening.size() + bytes.size() < 2) {
      state.opening.append(bytes);
      return;
    }
    state.opened = true;
    const std::string head = state.opening + std::string(bytes.substr(0, 2));
    if (TorchSnapshotReader::recognizes(head)) state.snapshot.emplace();
    if (Utf16Decoder::recognizes(head)) state.wide.emplace(head);
    state.hand_on(std::exchange(state.opening, {}));
  }
  state.hand_on(bytes);
}

Explanation Explainer::finish() {
  State& state = *state_;
  if (!state.opened && !state.opening.empty()) state.feed_text(state.opening);
  Explanation explanation;
  if (state.snapshot) {
    explanation = state.snapshot->finish();
  } else {
    const bool cut_line = !state.pending.empty() || state.segment > 0;
    if (cut_line) state.take_segment({}, true);
    state.chunks.finish();
    const Document document(state.excerpt.collect(), cut_line);
    const Facts facts =
        detect(document, {state.chunks.counts(), state.series.trend(), state.device_series.trend(),
                          state.further_progress.found(), state.tasks.table(), state.line - 1});
    explanation = conclude(document, facts, state.model);
    explanation.lines_read = state.line - 1;
  }
  explanation.bytes_read = state.bytes_read;
  return explanation;
}

Explanation explain_text(std::string_view log, ModelShapes model) {
  Explainer explainer(std::move(model));
  explainer.feed(log);
  return explainer.finish();
}

}  // namespace plimsoll::explain
