// Tests of samples use random biases and allowed ids.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "runtime/session/sample.h"

namespace mkrt {

struct RandomChanges {
  std::vector<MkBias> biases;
  SeenIds allowed;  // empty: every id

  LogitChanges with(const SeenIds& seen) const { return {seen, biases, allowed}; }
  // Returns MkSample::bias_begin for a vocabulary.
  std::vector<uint32_t> bias_begin(uint32_t vocab) const {
    std::vector<uint32_t> begin((vocab + kBiasBlockIds - 1) / kBiasBlockIds + 1);
    index_biases(biases, begin);
    return begin;
  }
};

// Says by `seed` which ids have a bias: none, a few, those at the ends of blocks of ids, an eighth, or all.
inline bool has_bias(uint32_t id, uint32_t vocab, uint32_t seed, std::mt19937& random) {
  const uint32_t in_block = id % kBiasBlockIds;
  switch (seed % 5) {
    case 0:
      return false;
    case 1:
      return id + 1 == vocab || random() % (vocab / 3 + 1) == 0;
    case 2:
      return in_block == 0 || in_block + 1 == kBiasBlockIds || in_block == 16;
    case 3:
      return random() % 8 == 0;
    default:
      return true;
  }
}

// Returns biases of both kinds, of which a sixth forbid their id. Every third seed allows two of three ids.
inline RandomChanges random_changes(uint32_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  RandomChanges changes;
  for (uint32_t id = 0; id < vocab; ++id) {
    if (!has_bias(id, vocab, seed, random)) continue;
    MkBias bias{id, random() % 2 ? normal(random) : 0, random() % 2 ? normal(random) : 0};
    if (random() % 6 == 0) (random() % 2 ? bias.before : bias.after) = -INFINITY;
    changes.biases.push_back(bias);
  }
  if (seed % 3 != 0) return changes;
  changes.allowed.resize((vocab + 31) / 32);
  for (uint32_t id = 0; id < vocab; ++id)
    if (random() % 3 != 0 || id + 1 == vocab) see(changes.allowed, id);
  return changes;
}

}  // namespace mkrt
