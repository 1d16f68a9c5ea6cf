#pragma once

// Tiles of attention scores: 64 rows of 64 lanes at most, in scratch.
//
// Forward, and for the gradient of the queries, lanes are queries and rows are keys, so that the
// largest score and the sum of a query are lanes of vectors; for the gradients of keys and values
// lanes are keys and rows are queries. Either way a product with the transposed tile of what is in
// the lanes makes the scores (product.h), in the same bits.

#include <cstdint>

#include "backend/cpu/simd/isa.h"

namespace plimsoll::backend::cpu {

inline constexpr int64_t kTile = 64;

struct ScoreTile {
  int64_t rows = 0;
  float scale = 1;
  float masked_score = 0;
  const uint8_t* seen = nullptr;   // (rows, kTile); null: every pair counts
  const float* factors = nullptr;  // (rows, kTile) of dropout; null: none
  float* scores = nullptr;         // (rows, kTile): products, in the end probabilities
};

// What a query has met so far, or its numbers in the backward direction.
struct QueryStats {
  float* most = nullptr;  // the largest score
  float* sum = nullptr;   // Σ exp(score − largest); its inverse in the backward direction
  float* keep = nullptr;  // forward: what earlier sums are to be multiplied by; backward: the dot
};

struct AttentionFunctions {
  // Merges a tile of keys into the stats; scores become exp(score − largest), dropped out.
  void (*merge)(const ScoreTile&, const QueryStats&) = nullptr;
  // Rows of O times `keep`, one for each row.
  void (*rescale)(float* rows, const float* keep, int64_t count, int64_t width) = nullptr;
  // A row of O over its sum.
  void (*divide)(const float* row, float sum, int64_t width, float* to) = nullptr;
  // Scores become probabilities, dropped out; `gradient`, the products d out · values before,
  // becomes the gradient of the product of query and key.
  void (*gradient_of_queries)(const ScoreTile&, const QueryStats&, float* gradient) = nullptr;
  void (*gradient_of_keys)(const ScoreTile&, const QueryStats&, float* gradient) = nullptr;
  float (*dot)(const float* a, const float* b, int64_t count) = nullptr;
};
AttentionFunctions pick_attention(Isa isa);

}  // namespace plimsoll::backend::cpu
