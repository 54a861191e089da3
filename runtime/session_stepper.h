// A session as what the engine drives.
#pragma once

#include "runtime/engine.h"
#include "runtime/session.h"

namespace mkrt {

// The session's cache holds one sequence without a page table, so a step has one request, whose pages are 0,
// 1, … The session must outlive it; nobody else feeds it meanwhile.
class SessionStepper final : public Stepper {
 public:
  explicit SessionStepper(Session& session) : session_(&session) {}
  BatchLimits limits() const override;
  Status step(const Batch& batch, std::span<int32_t> next, std::span<float> logits) override;

 private:
  Session* session_;
  PagesSeen seen_;
  std::vector<float> rows_;  // logits of all rows
};

}  // namespace mkrt
