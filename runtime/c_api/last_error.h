// Each thread keeps the error of its last failed call, and exceptions become statuses.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>

#include "runtime/base/status.h"
#include "runtime/c_api/mkrt.h"

namespace mkrt {

// LastError has a message of the thread's last_message, or one that takes no memory.
struct LastError {
  const char* message = "";
  mkrt_status status = MKRT_OK;
};
inline thread_local constinit LastError last_error;
inline thread_local std::string last_message;

inline mkrt_status last_status() {
  return last_error.status;
}

// Keeps an error as the thread's last one, and returns its status.
inline mkrt_status keep(mkrt_status status, std::string message) {
  last_message = std::move(message);
  last_error = {last_message.c_str(), status};
  return status;
}

inline mkrt_status keep_no_memory() {
  last_error = {"mkrt: error: no memory of the host", MKRT_NO_MEMORY};
  return MKRT_NO_MEMORY;
}

// Keeps the error of the exception that is being handled. Its message is another where there is no memory.
inline mkrt_status keep_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return keep_no_memory();
  } catch (const std::exception& e) {
    try {
      return keep(MKRT_BUG, fmt::format("mkrt: error: {}", e.what()));
    } catch (...) {
      return keep_no_memory();
    }
  } catch (...) {
    last_error = {"mkrt: error: unknown exception", MKRT_BUG};
    return MKRT_BUG;
  }
}

// Keeps `mkrt: error: …` about an argument.
template <class... Args>
mkrt_status refuse(fmt::format_string<Args...> format, Args&&... args) {
  return keep(MKRT_BAD_ARGUMENT, "mkrt: error: " + fmt::format(format, std::forward<Args>(args)...));
}

// Returns the status for an error. `invalid` is that of ErrorKind::kInvalid.
inline mkrt_status status_of(const Error& error, mkrt_status invalid = MKRT_BAD_ARGUMENT) {
  switch (error.kind) {
    case ErrorKind::kInvalid:
      return invalid;
    case ErrorKind::kOutOfOrder:
      return MKRT_OUT_OF_ORDER;
    case ErrorKind::kNoMemory:
      return MKRT_NO_MEMORY;
    case ErrorKind::kNoDevice:
      return MKRT_NO_DEVICE;
    case ErrorKind::kFault:
      return MKRT_FAULT;
    case ErrorKind::kTimeout:
      return MKRT_TIMEOUT;
    case ErrorKind::kNotFinite:
      return MKRT_NOT_FINITE;
  }
  return MKRT_BUG;
}

inline mkrt_status keep(const Error& error, mkrt_status invalid = MKRT_BAD_ARGUMENT) {
  return keep(status_of(error, invalid), error.message);
}
inline mkrt_status keep(const Status& status) {
  return status.ok() ? MKRT_OK : keep(status.error());
}

// Keeps the error, and returns NULL.
template <class T>
T* fail(const Error& error, mkrt_status invalid) {
  keep(error, invalid);
  return nullptr;
}

inline bool missing(const void* argument, const char* name) {
  if (!argument) refuse("{} is NULL", name);
  return !argument;
}

// Runs `f` and returns its result, or `failed` after an exception, whose text is kept as the error. Nothing
// may be thrown out of a C function.
template <class F>
auto guarded(F f, decltype(f()) failed) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    keep_exception();
    return failed;
  }
}

// Runs `f`, which returns a status or nothing.
template <class F>
auto guarded(F f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    return static_cast<decltype(f())>(keep_exception());
  }
}

}  // namespace mkrt
