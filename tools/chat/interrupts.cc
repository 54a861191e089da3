#include "tools/chat/interrupts.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "tools/signals.h"

namespace mkc {
namespace {

// A handler reaches nothing but globals.
std::atomic<int> g_event{-1};
std::atomic<bool> g_seen{false};

void take_signal(int signal) {
  if (g_seen.exchange(true)) return end_by_signal(signal);
  const int error = errno;
  const uint64_t one = 1;
  (void)!write(g_event.load(), &one, sizeof(one));
  errno = error;
}

}  // namespace

mkrt::Result<Interrupts> Interrupts::open() {
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return mkrt::Error{fmt::format("mkc: error: no eventfd: {}", std::strerror(errno))};
  g_event = event;
  g_seen = false;
  if (std::signal(SIGINT, take_signal) == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  return Interrupts(event);
}

Interrupts::Interrupts(Interrupts&& other) noexcept : event_(std::exchange(other.event_, -1)) {}

Interrupts::~Interrupts() {
  if (event_ < 0) return;
  if (std::signal(SIGINT, end_by_signal) == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  close(event_);
}

bool Interrupts::seen() const {
  return g_seen;
}

void Interrupts::clear() {
  uint64_t count = 0;
  (void)!read(event_, &count, sizeof(count));
  g_seen = false;
}

}  // namespace mkc
