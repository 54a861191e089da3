// Makes the disturbance of a launch happen. A launch without one has no disturber.
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

  // Before an addition whose result nobody takes, and a store. False: it is lost, or made later.
  bool adds(uint32_t* p, uint32_t n);
  bool stores(uint32_t* p, uint32_t v);
  // Before an addition whose result the running fiber takes; it may be held back. False: it is lost.
  bool takes(Place place, uint32_t* p, uint32_t n);
  // At the issue of a copy: whether it is held, and announced early.
  void issues(Worker& worker, Copy& copy);
  void moment();

  // A worker's turn begins.
  void turn();
  // A deadline has passed.
  void pass_deadline() { deadline_passed_ = true; }
  // Nothing can run: lets go of what is held back. False: there is nothing that may be let go.
  bool release_stalled();
  // The launch is over; a step is over, and its counters have been looked at.
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
  uint64_t turns_ = 0;  // since something is held back
  bool deadline_passed_ = false;
  // What is held back: something of this worker; null: nothing. One of a word, a fiber, a copy, all of the
  // worker.
  Worker* holds_ = nullptr;
  Fiber* fiber_ = nullptr;
  uint32_t* word_ = nullptr;
  uint32_t value_ = 0;
  bool stores_ = false;
};

}  // namespace mkrt::emulator
