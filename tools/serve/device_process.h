// The device of a server runs in a process of its own. A crash, a fault or a hang of it leaves the server
// alive, and another process takes its place.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "tools/serve/device_link.h"
#include "tools/serve/device_wire.h"

namespace mkc {

struct DeviceProcessOptions {
  std::vector<std::string> command;         // of the process; the link's descriptors are appended
  std::chrono::milliseconds step_limit{0};  // longest time of a launch; 0: no limit
  std::chrono::milliseconds load_limit{std::chrono::minutes(30)};
  uint32_t max_starts = 3;  // starts that fail one after the other before requests end
};

// DeviceProcess is the stepper of a model in another process. One thread may use it, but for is_running()
// and stop().
class DeviceProcess final : public mkrt::Stepper {
 public:
  explicit DeviceProcess(DeviceProcessOptions options) : options_(std::move(options)) {}
  ~DeviceProcess() override;
  DeviceProcess(const DeviceProcess&) = delete;
  DeviceProcess& operator=(const DeviceProcess&) = delete;

  // Starts the process, and waits until its model is loaded. Error: the process has ended, and has printed
  // why.
  Status start();

  // Returns what the process has said of itself. Requires start().
  const DeviceReady& ready() const { return ready_; }

  mkrt::BatchLimits limits() const override { return *limits_; }
  // Errors: those of the session in the process; the process has ended, or takes longer than the limit.
  Status step(const mkrt::Batch& batch, mkrt::StepResult& result) override;
  // Returns the trace file of the last launch (docs/trace.md). Requires a traced kernel. Errors: those of
  // step(); the next step fails, too, after one.
  Result<std::string> read_trace();
  // Ends the process and starts another one, up to max_starts times. A call after one that failed starts one
  // process at most, and none before its time: waits between starts double from half a second to a minute.
  // Errors: the starts have failed, or it is not time; the new limits are others.
  Status recover() override;
  // Error: the process has ended.
  Status check() override;

  // Lets a call that waits for the process fail soon, and all later ones. Any thread may call it.
  void stop() { stopped_ = true; }

  bool is_running() const { return running_; }

 private:
  Status launch();
  Status ask(MessageKind question, std::span<const std::byte> bytes, MessageKind expected, Message& answer);
  Status await_ready();
  Receive receive(Message& message, std::chrono::milliseconds limit);
  std::string end();
  Status start_again();

  DeviceProcessOptions options_;
  std::optional<DeviceLink> link_;
  pid_t process_ = -1;
  DeviceReady ready_;
  std::optional<mkrt::BatchLimits> limits_;  // of the first process
  Bytes bytes_;
  std::atomic<bool> running_ = false, stopped_ = false;
  // A start that follows failed ones waits for its time, and the wait doubles with each.
  static constexpr std::chrono::milliseconds kFirstWait{500};
  uint32_t failed_ = 0;  // starts that failed since the process ran last
  std::chrono::milliseconds wait_ = kFirstWait;
  std::chrono::steady_clock::time_point next_start_;
};

}  // namespace mkc
