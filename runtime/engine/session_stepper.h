// The stepper that runs steps on a session.
#pragma once

#include "runtime/engine/engine.h"
#include "runtime/session/session.h"

namespace mkrt {

// The session must outlive the stepper, and only the stepper may feed it. Its cache and the cache's scales
// must stay the same, because pages are read long after they were written.
class SessionStepper final : public Stepper {
 public:
  explicit SessionStepper(Session& session) : session_(&session) {}
  BatchLimits limits() const override { return session_->limits(); }
  Status step(const Batch& batch, StepResult& result) override { return session_->step(batch, result); }

 private:
  Session* session_;
};

}  // namespace mkrt
