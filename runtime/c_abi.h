// What the functions of mkrt.h have in common: handles, and errors as results.
#pragma once

#include <fmt/format.h>

#include <exception>

#include "runtime/mkrt.h"
#include "runtime/session.h"

struct mkrt_device {
  std::unique_ptr<mkrt::Device> device;
  std::string name;
  mkrt::SealCheck seal = mkrt::SealCheck::kRequired;  // of sessions that are opened on it
};

struct mkrt_session {
  mkrt::Session session;
  mkrt::StepResult result{};         // of the last step, used again
  std::vector<mkrt::Draws> draws{};  // of the next one
  std::string trace{};               // given out last
};

namespace mkrt {

inline thread_local std::string last_error;

// Runs f and keeps what it throws, or the error it returns: nothing may leave a C function.
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

template <class T>
T* fail(const Error& error) {
  last_error = error.message;
  return nullptr;
}

// 0, or 1 and the error kept.
inline int failed(const Status& status) {
  if (!status.ok()) last_error = status.error().message;
  return status.ok() ? 0 : 1;
}

}  // namespace mkrt
