#include "tools/doctor/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "tools/seconds.h"

namespace mkc {

CheckWorker::~CheckWorker() {
  if (child_ > 0) kill(child_, SIGKILL);
  wait();
  if (from_ >= 0) close(from_);
}

Status CheckWorker::start(std::vector<std::string> command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error{fmt::format("no pipe: {}", std::strerror(errno))};
  from_ = ends[0];
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  const int failed = posix_spawn(&child_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed != 0) child_ = 0;
  return failed == 0 ? Status() : Error{fmt::format("cannot be started: {}", std::strerror(failed))};
}

CheckWorker::Heard CheckWorker::hear(nlohmann::ordered_json& line, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (const size_t end = text_.find('\n'); end != std::string::npos) {
      line = nlohmann::ordered_json::parse(text_.substr(0, end), nullptr, false);
      text_.erase(0, end + 1);
      if (line.is_object()) return Heard::kLine;
      continue;
    }
    const double left = seconds - seconds_since(begin);
    if (left <= 0) return Heard::kNothing;
    pollfd waits{from_, POLLIN, 0};
    if (poll(&waits, 1, static_cast<int>(left * 1000) + 1) <= 0) continue;
    char block[4096];
    const ssize_t count = read(from_, block, sizeof(block));
    if (count <= 0) return Heard::kEnd;
    text_.append(block, static_cast<size_t>(count));
  }
}

std::string CheckWorker::how_it_ended() {
  const int status = wait();
  return WIFSIGNALED(status) ? fmt::format("its process ended by signal {}", WTERMSIG(status))
                             : fmt::format("its process ended with {}", WEXITSTATUS(status));
}

int CheckWorker::wait() {
  int status = 0;
  if (child_ > 0)
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
  child_ = 0;
  return status;
}

}  // namespace mkc
