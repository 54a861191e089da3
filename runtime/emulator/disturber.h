// The disturber of a launch makes its disturbance happen. A launch without a disturbance has no disturber.
#pragma once

#include <array>
#include <atomic>

#include "runtime/emulator/disturbance.h"

namespace mkrt::emulator {

struct Copy;
struct Fiber;
struct Launch;
struct Worker;

class Disturber {
 public:
  using Place = Disturbance::Place;

  explicit Disturber(Launch& launch);
  ~Disturber();
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;

  // adds() and stores() are called before an addition whose result is not used, and before a store. Both
  // return false if the effect is lost or made later.
  bool adds(uint32_t* p, uint32_t n);
  bool stores(uint32_t* p, uint32_t v);
  // Called before an addition whose result the running fiber uses. The fiber may be held back. Returns false
  // if the addition is lost.
  bool takes(Place place, uint32_t* p, uint32_t n);
  // Called at the issue of a copy. Sets whether the copy is held, and announced early.
  void issues(Worker& worker, Copy& copy);
  // Called at each disturbable operation and each read of a counter.
  void moment();

  // Called when a worker's turn begins.
  void turn();
  // Called when a deadline has passed.
  void pass_deadline() { deadline_passed_ = true; }
  // Called when nothing can run. Releases the held effect. Returns false if there is none that may be
  // released.
  bool release_stalled();
  // end_launch() is called at the end of the launch. end_step() is called at the end of a step, after its
  // counters were checked.
  void end_launch();
  void end_step();

 private:
  using Kind = Disturbance::Kind;
  using Until = Disturbance::Until;

  bool strikes(Place place);
  void hold(Worker& worker);
  void halt(Worker& worker);
  void change();
  void release();

  Launch& launch_;
  Disturbance what_;
  std::array<std::atomic<uint64_t>, kDisturbancePlaces> counted_{};
  std::atomic<bool> happened_{false};
  uint64_t turns_ = 0;  // turns since the effect is held
  bool deadline_passed_ = false;
  // The worker whose effect is held back; null means none. The effect is one of a word, a fiber, a copy, or
  // the whole worker.
  Worker* holds_ = nullptr;
  Fiber* fiber_ = nullptr;
  uint32_t* word_ = nullptr;
  uint32_t value_ = 0;
  bool stores_ = false;
};

}  // namespace mkrt::emulator
