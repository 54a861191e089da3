// One thing that goes wrong in a launch, for tests and attackers (docs/emulator.md).
#pragma once

#include <array>
#include <cstdint>

namespace mkrt {

struct Disturbed;

struct Disturbance {
  enum class Kind : uint8_t {
    kNone,
    kDrop,    // an addition or store has no effect
    kDouble,  // an addition is made twice
    kDelay,   // an addition, store or copy takes effect late
    kEarly,   // a copy is announced as complete before its bytes are there
    kStall,   // a worker stands still for a while
    kStop,    // a worker stands still for ever
    kChange,  // a word changes
  };
  // What is counted from 1 on in a launch, to say which one is meant.
  enum class Place : uint8_t {
    kNotification,  // mk_red_relaxed and mk_add_acq_rel
    kTicket,        // mk_add_relaxed
    kStore,         // mk_store_release
    kCopy,          // of either kind
    kMoment,        // any of these, and looks at counters
    kBulkCopy,
  };
  // Until when something is late. Where nothing else can run, it does not stay late longer than kTurns.
  enum class Until : uint8_t {
    kTurns,     // of workers, but not beyond the end of its worker's step
    kDeadline,  // of some wait for it
    kStep,      // the next step of the launch, or the launch's end
  };

  Kind kind = Kind::kNone;
  Place place = Place::kNotification;
  uint64_t at = 0;      // kMoment 0: from the start
  uint32_t launch = 0;  // of the device, from 0
  Until until = Until::kTurns;
  uint64_t turns = 0;
  uint32_t worker = 0;  // that stands still
  // The word that changes, to (old & keep ^ flip) + add: a counter of the session's two banks, and behind
  // these MkStep::arrived.
  uint32_t word = 0, keep = ~0u, flip = 0, add = 0;
  Disturbed* seen = nullptr;  // gets what a launch counted; may be null
};
constexpr uint32_t kDisturbancePlaces = 6;

struct Disturbed {
  std::array<uint64_t, kDisturbancePlaces> counted{};  // by Disturbance::Place
  bool happened = false;
};

}  // namespace mkrt
