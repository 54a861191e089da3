// A call claims an open handle while it runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/c_api/last_error.h"
#include "runtime/device/device.h"

namespace mkrt {

// OpenDevice is a device with the lock that all calls for it take: those of its handle, of its sessions and
// of their engines. It outlives them, whichever handle is closed first.
struct OpenDevice {
  std::unique_ptr<Device> device;
  std::mutex calls{};
};

// Returns the number of the next handle, of any kind. Numbers never repeat, so that a closed handle stays
// closed. They are odd, so that no handle has the address of an object. Two copies of the library in a
// process begin at different numbers.
inline uintptr_t next_handle() {
  static std::atomic<uintptr_t> opened = 0;
  return reinterpret_cast<uintptr_t>(&opened) + 1 + 2 * opened.fetch_add(1, std::memory_order_relaxed);
}

// Handles holds the open handles of a kind. A handle is a number that callers see as a pointer to T. Nothing
// dereferences it.
template <class T>
class Handles {
 public:
  T* add(std::shared_ptr<T> handle) {
    const std::lock_guard lock(mutex_);
    const uintptr_t number = next_handle();
    open_.emplace(number, std::move(handle));
    return reinterpret_cast<T*>(number);
  }
  // Returns null for a handle that is not open.
  std::shared_ptr<T> find(const T* handle) {
    const std::lock_guard lock(mutex_);
    const auto at = open_.find(reinterpret_cast<uintptr_t>(handle));
    return at == open_.end() ? nullptr : at->second;
  }
  void remove(const T* handle) {
    const std::lock_guard lock(mutex_);
    open_.erase(reinterpret_cast<uintptr_t>(handle));
  }
  // Calls f(handle) while nobody can close the handle, and returns true if it is open. Requires that `f` does
  // not wait.
  template <class F>
  bool with(const T* handle, F f) {
    const std::lock_guard lock(mutex_);
    const auto at = open_.find(reinterpret_cast<uintptr_t>(handle));
    if (at == open_.end()) return false;
    f(at->second);
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<T>> open_;  // by number
};

// handles_of<T>() returns the open handles of a kind. T::kKind names the kind in errors, and `device` of a
// handle is its OpenDevice.
template <class T>
Handles<T>& handles_of() {
  static Handles<T> handles;
  return handles;
}

template <class T>
mkrt_status not_open(const T* handle) {
  if (!handle) return refuse("{} is NULL", T::kKind);
  return keep(MKRT_BAD_HANDLE, fmt::format("mkrt: error: {0} is no open {0}", T::kKind));
}

// A Claim is a call's right to use an open handle: the handle stays open, and no other call for its device
// runs. A claim that fails keeps the error.
template <class T>
class Claim {
 public:
  // The lock is tried while the handle cannot be closed: a call that fails never holds the last reference.
  explicit Claim(const T* handle) {
    const bool open = handles_of<T>().with(handle, [this](const std::shared_ptr<T>& found) {
      std::unique_lock lock(found->device->calls, std::try_to_lock);
      if (!lock) return;
      device_ = found->device;
      lock_ = std::move(lock);
      handle_ = found;
    });
    if (!open)
      not_open(handle);
    else if (!handle_)
      keep(MKRT_BUSY, fmt::format("mkrt: error: {}: another thread is in a call for its device", T::kKind));
  }

  explicit operator bool() const { return handle_ != nullptr; }
  T* operator->() const { return handle_.get(); }
  const std::shared_ptr<T>& shared() const { return handle_; }

 private:
  std::shared_ptr<OpenDevice> device_;  // destroyed last
  std::unique_lock<std::mutex> lock_;
  std::shared_ptr<T> handle_;
};

// Closes a handle once no other call for its device runs. NULL has no effect.
template <class T>
void close(const T* handle) {
  std::shared_ptr<T> open = handles_of<T>().find(handle);
  if (!open) {
    if (handle) not_open(handle);
    return;
  }
  const std::shared_ptr<OpenDevice> device = open->device;
  const std::lock_guard lock(device->calls);
  handles_of<T>().remove(handle);
  open.reset();
}

}  // namespace mkrt
