// A session as what the engine drives.
#pragma once

#include "runtime/engine.h"
#include "runtime/session.h"

namespace mkrt {

// The session must outlive it; nobody else feeds it meanwhile.
class SessionStepper final : public Stepper {
 public:
  explicit SessionStepper(Session& session) : session_(&session) {}
  BatchLimits limits() const override { return session_->limits(); }
  Status step(const Batch& batch, std::span<int32_t> next, std::span<float> logits) override;

 private:
  Session* session_;
  std::vector<float> rows_;  // logits of all rows
};

}  // namespace mkrt
