#include "tools/serve/device_main.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>

#include "tools/serve/device_wire.h"

namespace mkc {
namespace {

constexpr std::chrono::milliseconds kForever{std::chrono::hours(24)};

}  // namespace

Result<DeviceLink> open_device_link(const std::string& text) {
  DeviceLink::Ends ends;
  char more = 0;
  if (std::sscanf(text.c_str(), "%d,%d%c", &ends.socket, &ends.memory, &more) != 2)
    return Error{fmt::format("--device-link: error: found {}, expected two file descriptors", text)};
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // its handler removes temporary files
  return DeviceLink::open(ends);
}

Status run_device(mkrt::Session& session, const std::string& device, DeviceLink& link) {
  Bytes bytes;
  write_ready({session.limits(), device, session.manifest().eos_ids}, bytes);
  if (Status status = link.send(MessageKind::kReady, bytes); !status.ok()) return status;
  ReceivedBatch received;
  mkrt::StepResult result;
  for (;;) {
    Message message;
    const Receive got = link.receive(message, kForever);
    if (got == Receive::kLate) continue;
    if (got == Receive::kClosed) return {};
    Status status = Error{"device: error: the server has sent no batch"};
    if (message.kind == MessageKind::kBatch && read_batch(message.bytes, received))
      status = session.step(received.batch, result);
    if (!status.ok()) {
      (void)link.send(MessageKind::kError, std::as_bytes(std::span(status.error().message)));
      return status;
    }
    write_result(result, bytes);
    if (Status sent = link.send(MessageKind::kResult, bytes); !sent.ok()) return {};  // the server has gone
  }
}

}  // namespace mkc
