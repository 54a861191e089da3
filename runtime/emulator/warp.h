// A warp has collectives. All 32 lanes arrive, the last one computes, and each takes its result.
#pragma once

#include <cstdint>

namespace mkrt::emulator {

enum class Collective : uint8_t {
  kNone,
  kSync,
  kShuffleXor,
  kSum,
  kMax,
  kAny,
  kQuadSum,
  kMmaBf16,
  kMmaF16,
  kMmaE4m3,
  kWgmmaBf16,  // of a warpgroup, as are the next three
  kWgmmaF16,
  kWgmmaE4m3,
  kWgmmaWait,
};

const char* collective_name(Collective collective);  // the kernel's name for it

struct MmaFragment {
  uint32_t a[4];
  uint32_t b[2];
  float d[4];
};

constexpr uint32_t kLanes = 32;

struct Warp {
  uint32_t arrived = 0;
  Collective collective = Collective::kNone;
  uint32_t parameter = 0;                           // parameter of the collective: the shuffle's mask
  uint32_t first_lane = 0;                          // lane that arrived first
  uint32_t grid = 0xffffffffu, task = 0xffffffffu;  // task that the lanes run
  bool in_task = false;                             // the task has begun and not ended
  float in[kLanes];                                 // written on arrival
  float out[kLanes];  // written by the last lane to arrive, read before the lane's next arrival
  MmaFragment fragment[kLanes];
};

}  // namespace mkrt::emulator
