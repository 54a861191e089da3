#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string_view>

#include "codegen/assembler.h"
#include "runtime/base/file.h"
#include "runtime/base/temporaries.h"

namespace mkc {
namespace {

struct Outcome {
  int status = -1;  // exit status, or 128 + the signal's number
  std::string log;  // standard output and error
};

// Runs a program without a shell, and waits for its end. Errors: the program cannot be started.
Result<Outcome> run(std::vector<std::string> command, const std::string& log_path) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  // Ignored signals would stay ignored in the child.
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&defaults, signal);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int failed = posix_spawn(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error{fmt::format("cannot be started: {}", std::strerror(failed))};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const mkrt::Result<std::string> log = mkrt::read_text(log_path, size_t{1} << 26);
  return Outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                 log.ok() ? log.value() : ""};
}

class Ptxas final : public Assembler {
 public:
  Ptxas(std::string path, std::string version) : path_(std::move(path)), version_(std::move(version)) {}

  std::string name() const override { return fmt::format("ptxas {} ({})", version_, path_); }

  Result<Cubin> assemble(const std::string& ptx, const Target& target) const override {
    const mkrt::TemporaryFolder scratch;
    if (scratch.path.empty()) return Error{fmt::format("error: {}", scratch.fault())};
    const std::string in = scratch.path + "/kernel.ptx", out = scratch.path + "/kernel.cubin";
    if (Status written = mkrt::write_file(in, std::as_bytes(std::span(ptx))); !written.ok())
      return written.error();
    const Result<Outcome> outcome =
        run({path_, "-v", "-O3", "-arch=" + target.name, in, "-o", out}, scratch.path + "/log");
    if (!outcome.ok()) return Error{fmt::format("{}: error: {}", path_, outcome.error().message)};
    if (outcome.value().status != 0)
      return Error{fmt::format("error: {} failed (exit {}):\n{}", name(), outcome.value().status,
                               outcome.value().log)};
    const Result<mkrt::MappedFile> file = mkrt::map_file(out);
    if (!file.ok()) return file.error();
    const std::span<const std::byte> bytes = file.value().bytes;
    return Cubin{{bytes.begin(), bytes.end()}, outcome.value().log};
  }

 private:
  std::string path_, version_;
};

}  // namespace

Result<std::unique_ptr<Assembler>> open_ptxas(const std::string& path) {
  const mkrt::TemporaryFolder scratch;
  if (scratch.path.empty()) return Error{scratch.fault()};
  const Result<Outcome> outcome = run({path, "--version"}, scratch.path + "/log");
  if (!outcome.ok()) return outcome.error();
  constexpr std::string_view kRelease = "release ", kBuild = ", V";
  const std::string& log = outcome.value().log;
  const size_t at = log.find(kRelease);
  // The release is like "12.8, V12.8.93", and the part behind the comma may be missing.
  int major = 0, minor = 0;
  const char* const end = log.data() + log.size();
  const char* next = at == log.npos ? end : log.data() + at + kRelease.size();
  const auto take = [&](int& number) {
    const auto [behind, failed] = std::from_chars(next, end, number);
    next = behind;
    return failed == std::errc();
  };
  const bool has_major = take(major) && next != end && *next == '.';
  if (has_major) ++next;
  if (!has_major || !take(minor)) return Error{"is no ptxas: it does not tell its release"};
  if (std::pair(major, minor) < std::pair(12, 8))
    return Error{fmt::format("is of CUDA {}.{}, expected 12.8 or newer", major, minor)};
  const std::string_view rest(next, end);
  const size_t build = rest.starts_with(kBuild) ? rest.find_first_not_of("0123456789.", kBuild.size()) : 0;
  const std::string version = fmt::format("{}.{}{}", major, minor, rest.substr(0, build));
  return std::unique_ptr<Assembler>(std::make_unique<Ptxas>(path, version));
}

}  // namespace mkc
