// The parts that all functions of mkrt.h share: handles, and errors as results.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "runtime/c_api/mkrt.h"
#include "runtime/session/session.h"

struct mkrt_device {
  std::shared_ptr<mkrt::Device> device;
  std::string name;
  mkrt::SealCheck seal = mkrt::SealCheck::kRequired;  // for sessions opened on the device
  std::string kept_weights{};                         // folder, likewise
};

struct mkrt_session {
  std::shared_ptr<mkrt::Device> device;  // outlives the session, whichever handle is closed first
  mkrt::Session session;
  mkrt::StepResult result{};             // of the newest step; reused
  std::vector<mkrt::Samples> samples{};  // of the next step
  std::string trace{};                   // the text that mkrt_trace() returned last
};

namespace mkrt {

inline thread_local std::string last_error;

// Runs `f` and returns its result, or `failed` after an exception, whose text is kept as the error. Nothing
// may be thrown out of a C function.
template <class F>
auto guarded(F f, decltype(f()) failed) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    last_error = fmt::format("mkrt: error: {}", e.what());
  } catch (...) {
    last_error = "mkrt: error: unknown exception";
  }
  return failed;
}

inline bool missing(const void* argument, const char* name) {
  if (!argument) last_error = fmt::format("mkrt: error: {} is NULL", name);
  return !argument;
}

// Handles holds the open handles. A handle is dereferenced only after it is found here.
class Handles {
 public:
  void add(const void* handle) {
    const std::lock_guard lock(mutex_);
    open_.insert(handle);
  }
  // Removes a handle. Returns false if it was not open.
  bool remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    return open_.erase(handle) != 0;
  }
  bool has(const void* handle) {
    const std::lock_guard lock(mutex_);
    return open_.contains(handle);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<const void*> open_;
};
Handles& open_devices();
Handles& open_sessions();

inline bool missing(const mkrt_device* device) {
  if (missing(device, "device")) return true;
  const bool open = open_devices().has(device);
  if (!open) last_error = "mkrt: error: device is no open device";
  return !open;
}
inline bool missing(const mkrt_session* session) {
  if (missing(session, "session")) return true;
  const bool open = open_sessions().has(session);
  if (!open) last_error = "mkrt: error: session is no open session";
  return !open;
}

template <class T>
T* fail(const Error& error) {
  last_error = error.message;
  return nullptr;
}

// Returns 0 for success, and 1 for an error, which it keeps.
inline int failed(const Status& status) {
  if (!status.ok()) last_error = status.error().message;
  return status.ok() ? 0 : 1;
}

}  // namespace mkrt
