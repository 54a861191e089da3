// Ctrl-C asks the program to stop instead of ending it.
#pragma once

#include "runtime/base/status.h"

namespace mkc {

// Interrupts takes SIGINT while it lives. At most one may live at a time. A SIGINT that the caller of the
// program ignores stays ignored.
//
// A second SIGINT before clear() ends the process by the signal, so that a device that hangs can be left.
class Interrupts {
 public:
  // Error: no descriptor for the pipe that the signal's handler writes to.
  static mkrt::Result<Interrupts> open();
  Interrupts(Interrupts&& other) noexcept;
  Interrupts& operator=(Interrupts&&) = delete;
  ~Interrupts();

  // Tells whether a signal has come since the last clear().
  bool seen() const;
  void clear();
  // Returns a descriptor that can be read once a signal has come.
  int descriptor() const { return event_; }

 private:
  explicit Interrupts(int event) : event_(event) {}
  int event_;  // an eventfd; -1: moved from
};

}  // namespace mkc
