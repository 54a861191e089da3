#include "tools/serve/device_main.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <charconv>
#include <csignal>

#include "tools/serve/device_wire.h"

namespace mkc {
namespace {

constexpr std::chrono::milliseconds kForever{std::chrono::hours(24)};

// A Responder answers the messages of a server.
struct Responder {
  mkrt::Session& session;
  ReceivedBatch received = {};
  mkrt::StepResult result = {};

  // Writes the answer's bytes, and returns its kind.
  Result<MessageKind> answer(const Message& message, Bytes& bytes) {
    if (message.kind == MessageKind::kAskTrace) {
      const mkrt::Result<mkrt::Trace> trace = session.read_trace();
      if (!trace.ok()) return trace.error();
      const std::string text = mkrt::to_json(trace.value());
      const auto from = std::as_bytes(std::span(text));
      bytes.assign(from.begin(), from.end());
      return MessageKind::kTrace;
    }
    if (message.kind != MessageKind::kBatch || !read_batch(message.bytes, received))
      return Error{"device: error: the server has sent no batch"};
    if (Status status = session.step(received.batch, result); !status.ok()) return status.error();
    write_result(result, bytes);
    return MessageKind::kResult;
  }
};

}  // namespace

Result<DeviceLink> open_device_link(const std::string& text) {
  DeviceLink::Ends ends;
  const char* const last = text.data() + text.size();
  const auto [comma, wrong_socket] = std::from_chars(text.data(), last, ends.socket);
  const bool has_two = wrong_socket == std::errc() && comma != last && *comma == ',';
  const auto [end, wrong_memory] = std::from_chars(has_two ? comma + 1 : last, last, ends.memory);
  if (!has_two || wrong_memory != std::errc() || end != last)
    return Error{fmt::format("--device-link: error: found {}, expected two file descriptors", text)};
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // its handler removes temporary files
  return DeviceLink::open(ends);
}

Status run_device(mkrt::Session& session, const std::string& device, DeviceLink& link) {
  Bytes bytes;
  const mkrt::Manifest& manifest = session.manifest();
  write_ready({session.limits(), device, manifest.eos_ids, manifest.traced}, bytes);
  if (Status status = link.send(MessageKind::kReady, bytes); !status.ok()) return status;
  Responder responder{session};
  for (;;) {
    Message message;
    const Receive got = link.receive(message, kForever);
    if (got == Receive::kLate) continue;
    if (got == Receive::kClosed) return {};
    const Result<MessageKind> kind = responder.answer(message, bytes);
    if (!kind.ok()) {
      (void)link.send(MessageKind::kError, std::as_bytes(std::span(kind.error().message)));
      return kind.error();
    }
    if (Status sent = link.send(kind.value(), bytes); !sent.ok()) return {};  // the server has gone
  }
}

}  // namespace mkc
