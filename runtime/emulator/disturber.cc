#include "runtime/emulator/disturber.h"

#include "runtime/emulator/atomic.h"
#include "runtime/emulator/launch.h"

namespace mkrt::emulator {

Disturber::Disturber(Launch& launch) : launch_(launch), what_(launch.options.disturbance) {}

Disturber::~Disturber() {
  if (!what_.seen) return;
  for (uint32_t i = 0; i < kDisturbancePlaces; ++i) what_.seen->counted[i] = counted_[i];
  what_.seen->happened = happened_;
}

bool Disturber::strikes(Place place) {
  const uint64_t number = counted_[static_cast<size_t>(place)].fetch_add(1, std::memory_order_relaxed) + 1;
  const bool strikes = what_.kind != Kind::kNone && place == what_.place && number == what_.at;
  if (strikes) happened_ = true;
  return strikes;
}

void Disturber::hold(Worker& worker) {
  holds_ = &worker;
  turns_ = 0;
}

bool Disturber::adds(uint32_t* p, uint32_t n) {
  moment();
  if (!strikes(Place::kNotification)) return true;
  if (what_.kind == Kind::kDouble) atomic(p).fetch_add(n);
  if (what_.kind == Kind::kDelay) {
    hold(*self().worker);
    word_ = p, value_ = n, stores_ = false;
    if (Race* race = launch_.race.get()) race->release_fenced(self().agent, race->counter(p));
  }
  return what_.kind == Kind::kDouble;
}

bool Disturber::stores(uint32_t* p, uint32_t v) {
  moment();
  if (!strikes(Place::kStore)) return true;
  if (what_.kind == Kind::kDelay) {
    hold(*self().worker);
    word_ = p, value_ = v, stores_ = true;
  }
  return false;
}

bool Disturber::takes(Place place, uint32_t* p, uint32_t n) {
  moment();
  // A worker's additions are visible when the worker arrives at the end of a step.
  if (p == &launch_.step->arrived && holds_ == self().worker && word_ && what_.until == Until::kTurns)
    release();
  if (!strikes(place)) return true;
  if (what_.kind == Kind::kDouble) atomic(p).fetch_add(n);
  if (what_.kind == Kind::kDelay) {
    hold(*self().worker);
    fiber_ = &self();
    suspend({Wait::Kind::kHeld, nullptr, 0});
  }
  return what_.kind != Kind::kDrop;
}

void Disturber::issues(Worker& worker, Copy& copy) {
  moment();
  const bool bulk = copy.mbarrier != kNoMbarrier && strikes(Place::kBulkCopy);
  if (!strikes(Place::kCopy) && !bulk) return;
  copy.held = true;
  copy.early = what_.kind == Kind::kEarly;
  hold(worker);
}

void Disturber::moment() {
  if (!strikes(Place::kMoment)) return;
  if (what_.kind == Kind::kChange) return change();
  halt(*launch_.workers[what_.worker]);
}

void Disturber::halt(Worker& worker) {
  worker.halted = true;
  worker.slice = 1;  // the worker gives way at its next switch
  hold(worker);
}

void Disturber::change() {
  const uint32_t cells = 2 * launch_.session->event_cells;
  auto* step = const_cast<MkStep*>(launch_.step);
  uint32_t* p = what_.word < cells ? reinterpret_cast<uint32_t*>(launch_.session->counters) + what_.word
                                   : &step->arrived;
  atomic(p).store(((atomic(p).load() & what_.keep) ^ what_.flip) + what_.add);
  note_change(launch_);
}

void Disturber::turn() {
  if (what_.place == Place::kMoment && what_.at == 0 && !happened_) {
    happened_ = true;
    halt(*launch_.workers[what_.worker]);
  }
  if (holds_ && what_.until == Until::kTurns && what_.kind != Kind::kStop && ++turns_ > what_.turns)
    release();
}

bool Disturber::release_stalled() {
  const bool may = what_.until == Until::kTurns || (what_.until == Until::kDeadline && deadline_passed_);
  if (!holds_ || !may || what_.kind == Kind::kStop) return false;
  release();
  return true;
}

void Disturber::end_launch() {
  if (word_ && what_.until != Until::kStep) release();
}

void Disturber::end_step() {
  if (word_ && what_.until == Until::kStep) release();
}

void Disturber::release() {
  Worker& worker = *holds_;
  holds_ = nullptr;
  worker.halted = false;
  if (word_ && stores_) atomic(word_).store(value_);
  if (word_ && !stores_) atomic(word_).fetch_add(value_);
  word_ = nullptr;
  if (fiber_) wake(*fiber_);
  fiber_ = nullptr;
  for (Copy& copy : worker.copies.in_flight)
    if (copy.held) {
      copy.held = false;
      copy.due_step = worker.copies.next_due = worker.steps;
    }
  note_change(launch_);
}

}  // namespace mkrt::emulator
