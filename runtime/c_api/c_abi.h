// Handles of mkrt.h stand for these structs (handles.h).
#pragma once

#include "runtime/c_api/handles.h"
#include "runtime/session/session.h"

struct mkrt_device {
  static constexpr const char* kKind = "device";
  std::shared_ptr<mkrt::OpenDevice> device;
  std::string name;
  mkrt::SealCheck seal = mkrt::SealCheck::kRequired;  // for sessions opened on the device
  std::string kept_weights{};                         // folder, likewise
};

struct mkrt_session {
  static constexpr const char* kKind = "session";
  std::shared_ptr<mkrt::OpenDevice> device;
  mkrt::Session session;
  mkrt::StepResult result{};             // of the newest step; reused
  std::vector<mkrt::Samples> samples{};  // of the next step
  std::string trace{};                   // the text that mkrt_trace() returned last
  bool has_engine = false;               // an open engine feeds the session
};

namespace mkrt {

// Tells whether an engine is open on a session, and keeps the error.
inline bool has_engine(const Claim<mkrt_session>& claim) {
  if (claim->has_engine)
    keep(MKRT_OUT_OF_ORDER, "mkrt: error: session: an engine is open on it: close it first");
  return claim->has_engine;
}

// Returns f(session), what the session has now, or 0, and then keeps the error.
template <class F>
auto present(const mkrt_session* session, F f) {
  using Number = decltype(f(std::declval<const mkrt::Session&>()));
  return guarded(
      [&]() -> Number {
        const Claim claim(session);
        return claim ? f(claim->session) : 0;
      },
      Number{0});
}

}  // namespace mkrt
