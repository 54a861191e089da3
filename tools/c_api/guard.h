// libmkc's C functions turn errors into results.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>

namespace mkc {

inline thread_local std::string last_error;

// Runs `f`, which returns a pointer or an int. After an exception the text is kept as the error, and `failed`
// is returned.
template <class F>
auto guarded(F f, decltype(f()) failed) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    last_error = fmt::format("mkc: error: {}", e.what());
  } catch (...) {
    last_error = "mkc: error: unknown exception";
  }
  return failed;
}

// Keeps an error, and returns null, for a pointer of any type.
inline std::nullptr_t keep_error(const std::string& message) {
  last_error = message;
  return nullptr;
}

inline bool missing(const void* argument, const char* name) {
  if (!argument) last_error = fmt::format("mkc: error: {} is NULL", name);
  return !argument;
}

}  // namespace mkc
