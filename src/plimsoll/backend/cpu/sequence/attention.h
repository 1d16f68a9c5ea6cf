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
// Lanes of a tile that so many places take, in whole lines of memory.
constexpr int64_t lanes_of_places(int64_t count) { return (count + 15) / 16 * 16; }

struct ScoreTile {
  int64_t rows = 0;
  int64_t lanes = kTile;  // those in use, in whole lines
  float scale = 1;
  float masked_score = 0;
  const uint8_t* seen = nullptr;   // (rows, kTile); null: every pair counts
  const float* factors = nullptr;  // (rows, kTile) of dropout; null: none
  float* scores = nullptr;         // (rows, kTile): products, in the end probabilities
  int64_t first_key = 0;           // forward: the key of the first row
};

// What a query has met so far, or its numbers in the backward direction. The key of the largest
// score is counted apart, and so is its value: what is small beside it adds up.
struct QueryStats {
  float* most = nullptr;  // the largest score
  // Σ exp(score − largest) without the largest itself; backward: the inverse of the whole sum.
  float* rest = nullptr;
  float* keep = nullptr;   // forward: what earlier sums are to be multiplied by; backward: the dot
  float* key = nullptr;    // forward: which key has the largest, as a whole number; −1: none yet
  float* share = nullptr;  // forward: its probability before it is divided: 1, or dropout's factor
};

struct AttentionFunctions {
  // to[c · kTile + lane] = rows[lane · step + c] for `count` rows; lanes after them are 0, to the
  // end of a line.
  void (*transpose)(const float* rows, int64_t step, int64_t count, int64_t width,
                    float* to) = nullptr;
  // Merges a tile of keys into the stats; scores become exp(score − largest), dropped out, and 0
  // for the key of the largest.
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
