// The stepper that runs steps on a session.
#pragma once

#include "runtime/engine/engine.h"
#include "runtime/session/session.h"

namespace mkrt {

// The session must outlive the stepper, and only the stepper may feed it.
class SessionStepper final : public Stepper {
 public:
  explicit SessionStepper(Session& session) : session_(&session) {}
  BatchLimits limits() const override { return session_->limits(); }
  Status step(const Batch& batch, StepResult& result) override { return session_->step(batch, result); }

 private:
  Session* session_;
};

}  // namespace mkrt
