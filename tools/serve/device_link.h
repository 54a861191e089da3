// A link joins a server and the process that runs its device. Messages alternate: a batch or a question, then
// its result or answer. A socket says whose turn it is, and shared memory has the bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include "ir/diag.h"

namespace mkc {

enum class MessageKind : uint32_t {
  kReady,     // DeviceReady, the process's first message
  kBatch,     // to the process
  kResult,    // of the batch before
  kAskTrace,  // to the process, without bytes: what did the workers do in the last launch?
  kTrace,     // text: a trace file (docs/trace.md)
  kError,     // text: the batch or the question before failed, and the process ends
};

struct Message {
  MessageKind kind = MessageKind::kError;
  std::span<const std::byte> bytes;  // valid until the link sends
};

enum class Receive : uint8_t { kMessage, kClosed, kLate };

// DeviceLink is one end of a link. Each end has its own area of the shared memory, which it alone writes.
class DeviceLink {
 public:
  // Ends has the file descriptors of an end, for another process.
  struct Ends {
    int socket = -1, memory = -1;
  };

  // Makes a link, and returns its first end. `other` gets the descriptors of the second end, which the caller
  // closes. Errors: no descriptors or no memory.
  static Result<DeviceLink> make(Ends& other);
  // Takes the second end, in the other process. Errors: these are no descriptors of a link.
  static Result<DeviceLink> open(const Ends& ends);
  ~DeviceLink();
  DeviceLink(DeviceLink&& other) noexcept { swap(other); }
  DeviceLink& operator=(DeviceLink&& other) noexcept {
    swap(other);
    return *this;
  }

  // Sends a message. Errors: the other end is closed; more bytes than an area has.
  Status send(MessageKind kind, std::span<const std::byte> bytes);

  // Waits for a message, at most `limit`.
  Receive receive(Message& message, std::chrono::milliseconds limit);

 private:
  DeviceLink() = default;
  void swap(DeviceLink& other) noexcept {
    std::swap(ends_, other.ends_);
    std::swap(memory_, other.memory_);
    std::swap(second_, other.second_);
  }
  std::span<std::byte> area(bool second) const;

  Ends ends_;
  std::byte* memory_ = nullptr;
  bool second_ = false;
};

}  // namespace mkc
