// A disturbance is one thing that goes wrong in a launch, for tests and attacks (docs/emulator.md).
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
  // Place says what is counted in a launch, from 1 on, to select the disturbed one.
  enum class Place : uint8_t {
    kNotification,  // mk_red_relaxed and mk_add_acq_rel
    kTicket,        // mk_add_relaxed
    kStore,         // mk_store_release
    kCopy,          // of either kind
    kMoment,        // any of the first four, and reads of counters
    kBulkCopy,
  };
  // Until says how long an effect is late. A delay of kTurns ends early where nothing else can run.
  enum class Until : uint8_t {
    kTurns,     // turns of workers, but not beyond the end of the step of its worker
    kDeadline,  // until nothing can run after a wait passed its deadline
    kStep,      // until the launch's next step, or the launch's end
  };

  Kind kind = Kind::kNone;
  Place place = Place::kNotification;
  uint64_t at = 0;      // number of the disturbed one; kMoment 0: from the start
  uint32_t launch = 0;  // number of the device's launch, from 0
  Until until = Until::kTurns;
  uint64_t turns = 0;
  uint32_t worker = 0;  // the worker that stands still
  // The word is replaced by (old & keep ^ flip) + add. Words of the session's two banks of counters come
  // first, and MkStep::arrived is behind them.
  uint32_t word = 0, keep = ~0u, flip = 0, add = 0;
  Disturbed* seen = nullptr;  // receives the counts of the launch; may be null
};
constexpr uint32_t kDisturbancePlaces = 6;

struct Disturbed {
  std::array<uint64_t, kDisturbancePlaces> counted{};  // by Disturbance::Place
  bool happened = false;
};

}  // namespace mkrt
