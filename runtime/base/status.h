// Errors of the runtime are values. No exception crosses a function of mkrt.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace mkrt {

// ErrorKind says what a caller of libmkrt can do about an error.
enum class ErrorKind : uint8_t {
  kInvalid,     // an argument or a file is wrong; another one may be right
  kOutOfOrder,  // the call is right, but not now
  kNoMemory,    // of the host or of the device
  kNoDevice,    // the device is missing, or cannot run the artefact
  kFault,       // the device failed; its session cannot go on
  kTimeout,     // a wait inside the kernel outlasted its deadline; its session cannot go on
  kNotFinite,   // a token was sampled from logits without a finite greatest one; the session can go on
};

// An error message is in lower case, has no final period, and gives the actual and the required value. A
// fault in a file reads `FILE: error: …`.
struct Error {
  std::string message;
  ErrorKind kind = ErrorKind::kInvalid;
};

// Result is a value, or the error that prevented it. value() requires ok(), and error() requires !ok().
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return value_.has_value(); }

  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return std::move(*value_);
  }
  const Error& error() const {
    assert(!ok());
    return error_;
  }

 private:
  // Clang takes longer for a variant, which would hold one of both.
  std::optional<T> value_;
  Error error_;
};

// Result<void> is success or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  const Error& error() const {
    assert(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace mkrt
