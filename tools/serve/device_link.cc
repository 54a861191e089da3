#include "tools/serve/device_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mkc {
namespace {

constexpr size_t kAreaBytes = size_t{1} << 28;  // of each end; only what is written takes memory

struct Header {
  MessageKind kind;
  uint64_t bytes;
};

Error system_error(const char* what) {
  return Error{fmt::format("mkc: error: {}: {}", what, std::strerror(errno))};
}

void close_all(DeviceLink::Ends& ends) {
  for (int* fd : {&ends.socket, &ends.memory})
    if (*fd >= 0) close(std::exchange(*fd, -1));
}

std::byte* map_areas(int memory) {
  void* at = mmap(nullptr, 2 * kAreaBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

}  // namespace

Result<DeviceLink> DeviceLink::make(Ends& other) {
  DeviceLink link;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return system_error("no socket pair for the device's process");
  link.ends_.socket = sockets[0];
  other.socket = sockets[1];
  link.ends_.memory = memfd_create("mkc-device", MFD_CLOEXEC);
  if (link.ends_.memory < 0 || ftruncate(link.ends_.memory, 2 * kAreaBytes) != 0) {
    close_all(other);
    return system_error("no shared memory for the device's process");
  }
  other.memory = dup(link.ends_.memory);
  link.memory_ = map_areas(link.ends_.memory);
  if (other.memory >= 0 && link.memory_) return link;
  close_all(other);
  return system_error("no shared memory for the device's process");
}

Result<DeviceLink> DeviceLink::open(const Ends& ends) {
  DeviceLink link;
  link.ends_ = ends;
  link.second_ = true;
  link.memory_ = map_areas(ends.memory);
  if (!link.memory_) return system_error("no link to a server");
  return link;
}

DeviceLink::~DeviceLink() {
  if (memory_) munmap(memory_, 2 * kAreaBytes);
  close_all(ends_);
}

std::span<std::byte> DeviceLink::area(bool second) const {
  return {memory_ + (second ? kAreaBytes : 0), kAreaBytes};
}

Status DeviceLink::send(MessageKind kind, std::span<const std::byte> bytes) {
  const std::span<std::byte> to = area(second_);
  if (bytes.size() > to.size())
    return Error{fmt::format("mkc: error: a message of {} bytes, at most {} fit", bytes.size(), to.size())};
  std::ranges::copy(bytes, to.begin());
  const Header header{kind, bytes.size()};
  if (::send(ends_.socket, &header, sizeof header, MSG_NOSIGNAL) == sizeof header) return {};
  return system_error("the link to the device's process");
}

Receive DeviceLink::receive(Message& message, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd ready{ends_.socket, POLLIN, 0};
    const int polled = poll(&ready, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30)));
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return Receive::kLate;
    Header header;
    const ssize_t got = recv(ends_.socket, &header, sizeof header, 0);
    const std::span<std::byte> from = area(!second_);
    if (got != sizeof header || header.bytes > from.size()) return Receive::kClosed;
    message = {header.kind, from.first(header.bytes)};
    return Receive::kMessage;
  }
}

}  // namespace mkc
