#include "tools/serve/device_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace mkc {
namespace {

constexpr std::chrono::milliseconds kEndLimit{2000};  // for a process whose link is closed
constexpr std::chrono::milliseconds kNoLimit{std::chrono::hours(24)};
constexpr std::chrono::milliseconds kLongestWait{60'000};  // before a start that follows failed ones
constexpr std::chrono::milliseconds kLook{50};             // from one look at stop() to the next

// The process has these file descriptors beside the standard streams.
constexpr int kSocket = 3, kMemory = 4, kFirstClosed = 5;

std::string status_text(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("has ended with exit code {}", WEXITSTATUS(status));
}

std::string text_of(const Message& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}

// Starts the program. The process gets the standard streams and the ends of its link, and nothing else that
// is open. A client's connection would not close while the process has it, too. Returns an error number, or
// 0.
int spawn(const DeviceLink::Ends& ends, const std::vector<char*>& arguments, pid_t& process) {
  // Duplicates beyond both targets keep one dup2 from closing what the other needs.
  const int socket = fcntl(ends.socket, F_DUPFD_CLOEXEC, kFirstClosed);
  const int memory = fcntl(ends.memory, F_DUPFD_CLOEXEC, kFirstClosed);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, socket, kSocket);
  posix_spawn_file_actions_adddup2(&files, memory, kMemory);
  posix_spawn_file_actions_addclosefrom_np(&files, kFirstClosed);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A process group of its own keeps Ctrl-C in the terminal away from the process.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int failed = posix_spawn(&process, "/proc/self/exe", &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  for (const int fd : {socket, memory})
    if (fd >= 0) close(fd);
  return failed;
}

Error device_error(const std::string& what) {
  return Error{"device: error: the device's process " + what};
}

}  // namespace

DeviceProcess::~DeviceProcess() {
  end();
}

// Ends the process: by the closed link, and by a signal if it does not go. Returns how it has ended.
std::string DeviceProcess::end() {
  running_ = false;
  link_.reset();
  if (process_ < 0) return "was not started";
  int status = 0;
  const auto until = std::chrono::steady_clock::now() + kEndLimit;
  pid_t ended = 0;
  while ((ended = waitpid(process_, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (ended == 0) {
    kill(process_, SIGKILL);
    waitpid(process_, &status, 0);
  }
  process_ = -1;
  return status_text(status);
}

Status DeviceProcess::launch() {
  DeviceLink::Ends theirs;
  Result<DeviceLink> link = DeviceLink::make(theirs);
  if (!link.ok()) return link.error();
  std::vector<std::string> command = options_.command;
  command.push_back(fmt::format("--device-link={},{}", kSocket, kMemory));
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const int failed = spawn(theirs, arguments, process_);
  for (const int fd : {theirs.socket, theirs.memory}) close(fd);
  if (failed != 0) {
    process_ = -1;
    return device_error(fmt::format("cannot be started: {}", std::strerror(failed)));
  }
  link_ = std::move(link.value());
  return {};
}

// Waits for a message. A stop is as the end of the time.
Receive DeviceProcess::receive(Message& message, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    const Receive received = link_->receive(message, std::min(left, kLook));
    if (received != Receive::kLate || stopped_ || left <= kLook) return received;
  }
}

Status DeviceProcess::await_ready() {
  Message message;
  const Receive received = receive(message, options_.load_limit);
  if (received == Receive::kLate)
    return device_error(fmt::format("has not loaded its model within {} ms", options_.load_limit.count()));
  if (received == Receive::kClosed) return device_error(end());
  if (message.kind != MessageKind::kReady || !read_ready(message.bytes, ready_))
    return device_error("has sent no limits");
  running_ = true;
  return {};
}

Status DeviceProcess::start() {
  if (Status status = launch(); !status.ok()) return status;
  if (Status status = await_ready(); !status.ok()) {
    end();
    return status;
  }
  if (!limits_) limits_ = ready_.limits;
  if (ready_.limits == *limits_) return {};
  end();
  return device_error("has come back with other limits");
}

// Sends a message, and waits for its answer. After an error the process answers nothing more.
Status DeviceProcess::ask(MessageKind question, std::span<const std::byte> bytes, MessageKind expected,
                          Message& message) {
  if (!link_) return device_error("does not run");
  if (Status status = link_->send(question, bytes); !status.ok()) return device_error(end());
  const auto limit = options_.step_limit.count() ? options_.step_limit : kNoLimit;
  const Receive received = receive(message, limit);
  if (received == Receive::kClosed) return device_error(end());
  if (received == Receive::kLate) {
    running_ = false;
    return device_error(fmt::format("has not answered within {} ms", limit.count()));
  }
  if (message.kind == expected) return {};
  running_ = false;
  if (message.kind != MessageKind::kError) return device_error("has sent no result");
  return Error{text_of(message)};
}

Status DeviceProcess::step(const mkrt::Batch& batch, mkrt::StepResult& result) {
  write_batch(batch, bytes_);
  Message message;
  if (Status status = ask(MessageKind::kBatch, bytes_, MessageKind::kResult, message); !status.ok())
    return status;
  if (read_result(message.bytes, result)) return {};
  running_ = false;
  return device_error("has sent no result");
}

Result<std::string> DeviceProcess::read_trace() {
  Message message;
  const bool running = running_;
  const Status status = ask(MessageKind::kAskTrace, {}, MessageKind::kTrace, message);
  running_ = running;  // also after an error: the next step fails, too, and the engine recovers then
  if (!status.ok()) return status.error();
  return text_of(message);
}

Status DeviceProcess::check() {
  siginfo_t ended{};  // the process stays a child that end() waits for
  if (process_ >= 0 && waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      ended.si_pid == 0)
    return {};
  return device_error(end());
}

// Ends the process and starts another one. After a failure, sets when the next one may start.
Status DeviceProcess::start_again() {
  if (process_ > 0) kill(process_, SIGKILL);  // it may hang
  end();
  Status status = start();
  if (status.ok()) {
    wait_ = kFirstWait;
    failed_ = 0;
    return {};
  }
  next_start_ = std::chrono::steady_clock::now() + wait_;
  wait_ = std::min(2 * wait_, kLongestWait);
  ++failed_;
  return status;
}

Status DeviceProcess::recover() {
  const auto is_early = [&] { return failed_ > 0 && std::chrono::steady_clock::now() < next_start_; };
  if (failed_ >= options_.max_starts) return is_early() ? device_error("is not there") : start_again();
  Status status;
  while (failed_ < options_.max_starts) {
    while (is_early() && !stopped_) std::this_thread::sleep_for(kLook);
    if (stopped_) return device_error("is stopped");
    if (status = start_again(); status.ok()) return {};
  }
  return status;
}

}  // namespace mkc
