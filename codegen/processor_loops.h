// `mkc doctor` times these loops on this processor. They are compiled once for each instruction set, from the
// sources of task bodies (codegen/processor/measure.cc).
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/abi/weight_format.h"

// A ProcessorLoops holds the loops of one instruction set. Only a processor that has it may call them.
struct ProcessorLoops {
  // Reads `bytes` once by whole vectors, four independent sums at a time. `bytes` are a multiple of 256 from
  // an address that is a multiple of 64. The result depends on all of them.
  uint64_t (*read)(const void* from, uint64_t bytes);
  // Runs `rounds` of independent multiply-adds in registers: f32, or dot products of bf16 pairs. Returns how
  // many multiply-adds these were, or 0 where the instruction set has no such dot products.
  uint64_t (*multiply_add)(bool bf16, uint64_t rounds);

  // Multiplies `strips` strips of `cols` columns with the tokens that `Tokens` names. kMany unpacks the
  // weights once. `strips` is a multiple of kStrips, and `cols` of the format's tile_cols. `x` has room for
  // kMany rows of f32, each with 64 columns more, and for kUnpackedBytes behind these. `sums` has room for 16
  // sums of kMany tokens of each strip. Returns how many multiply-adds these were.
  enum class Tokens : uint32_t { kOne, kGroup, kMany };
  uint64_t (*product)(mkrt::WeightType type, Tokens tokens, uint32_t strips, uint32_t cols,
                      const char* weights, char* x, float* sums);
  // Attends with one query row, or with as many as go through keys together, to kAttendPositions positions of
  // kAttendColumns columns, 16 on a page. `stride` is the bytes from one position to the next of keys and of
  // values. `pages` are the numbers of the positions' pages. `memory` has kAttendBytes of room. Returns how
  // many multiply-adds these were.
  uint64_t (*attend)(mkrt::WeightType type, bool group, const char* keys, const char* values, uint64_t stride,
                     const uint32_t* pages, char* memory);

  static constexpr uint32_t kGroup = 8;   // most tokens or rows that go together
  static constexpr uint32_t kStrips = 4;  // a multiple of all numbers of strips that go together
  static constexpr uint32_t kMany = 48, kUnpackedBytes = 384 * 1024;
  static constexpr uint32_t kAttendBytes = 1 << 17, kAttendPositions = 256, kAttendColumns = 128,
                            kAttendPages = kAttendPositions / 16;
};

namespace mkc {

// Returns the loops of a processor target, or null for another target.
const ProcessorLoops* processor_loops(std::string_view target);

}  // namespace mkc
