#include "tools/doctor/checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include "codegen/assembler.h"
#include "codegen/nvptx.h"
#include "runtime/base/file.h"
#include "runtime/base/temporaries.h"
#include "tools/doctor/bodies.h"
#include "tools/doctor/measure.h"
#include "tools/doctor/probes.h"
#include "tools/output.h"
#include "tools/seconds.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kProbeSeconds = 5, kBodySeconds = 20, kMeasureSeconds = 20;

struct Check {
  enum class Kind { kPrimitive, kBody, kMeasure };
  Kind kind;
  size_t index;  // index among the checks of its kind, before `only` selects some
  std::string name, without;
  double limit_s;
};

// Returns the checks in a fixed order. The two processes name a check by its index in this list.
std::vector<Check> list_checks(const Engines& engines, const CheckOptions& options) {
  std::vector<Check> checks;
  const auto add = [&](Check::Kind kind, size_t index, const std::string& name, const std::string& without,
                       double limit_s) {
    const auto names = [&](const std::string& part) { return name.find(part) != std::string::npos; };
    if (options.only.empty() || std::ranges::any_of(options.only, names))
      checks.push_back({kind, index, name, without, limit_s});
  };
  size_t index = 0;
  for (const Probe& p : probes_of(engines))
    add(Check::Kind::kPrimitive, index++, "primitive " + p.name, p.without, kProbeSeconds);
  index = 0;
  for (const BodyCheck& b : body_checks(engines))
    add(Check::Kind::kBody, index++, "body " + b.name, b.without, kBodySeconds);
  add(Check::Kind::kMeasure, 0, "measure", "", kMeasureSeconds);
  return checks;
}

std::string body_path(const std::string& folder, size_t index) {
  return fmt::format("{}/body-{}", folder, index);
}

void tell(const ordered_json& object) {
  print_out("{}\n", object.dump());
  std::fflush(stdout);
}

// Worker is a process that runs checks. hear() waits for its next JSON line, its end, or a deadline.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (child_ > 0) kill(child_, SIGKILL);
    wait();
    if (from_ >= 0) close(from_);
  }

  Status start(std::vector<std::string> command) {
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

  enum class Heard { kLine, kEnd, kNothing };
  Heard hear(ordered_json& line, double seconds) {
    const Clock::time_point begin = Clock::now();
    for (;;) {
      if (const size_t end = text_.find('\n'); end != std::string::npos) {
        line = ordered_json::parse(text_.substr(0, end), nullptr, false);
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

  // Tells how the process ended. Requires that it has closed its output.
  std::string how_it_ended() {
    const int status = wait();
    return WIFSIGNALED(status) ? fmt::format("its process ended by signal {}", WTERMSIG(status))
                               : fmt::format("its process ended with {}", WEXITSTATUS(status));
  }

 private:
  int wait() {
    int status = 0;
    if (child_ > 0)
      while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
      }
    child_ = 0;
    return status;
  }

  pid_t child_ = 0;
  int from_ = -1;
  std::string text_;
};

class Checks {
 public:
  Checks(const Engines& engines, const CheckOptions& options, std::string folder)
      : checks_(list_checks(engines, options)), options_(options), folder_(std::move(folder)) {
    prepare(body_checks(engines));
  }

  CheckReport run() {
    while (next_ < checks_.size())
      if (const std::string fault = run_worker(); !fault.empty()) put(fault, 0);
    report_.seconds = seconds_since(begin_);
    return std::move(report_);
  }

 private:
  // Compiles the models of body checks, one thread per processor. Compilation takes most of doctor's time.
  void prepare(const std::vector<BodyCheck>& bodies) {
    std::atomic<size_t> next = 0;
    unprepared_.resize(checks_.size());
    const auto work = [&] {
      for (size_t i; (i = next++) < checks_.size();)
        if (checks_[i].kind == Check::Kind::kBody)
          unprepared_[i] = prepare_body(bodies[checks_[i].index], options_.without, options_.assembler,
                                        body_path(folder_, checks_[i].index));
    };
    std::vector<std::thread> threads;
    for (uint32_t i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
  }

  void put(const std::string& fault, double seconds) {
    const Check& check = checks_[next_];
    if (check.kind == Check::Kind::kMeasure)
      report_.measured_fault = fault;
    else
      report_.checks.push_back({check.name, fault, check.without, seconds});
    ++next_;
  }

  // Runs checks from the next one on in a new process. Returns the fault of a check that ended the process or
  // exceeded its limit, else "".
  std::string run_worker() {
    if (!unprepared_[next_].empty()) return unprepared_[next_];
    std::vector<std::string> command{"mkc", "doctor", "--worker", folder_, "--first", std::to_string(next_)};
    if (!options_.without.empty())
      command.insert(command.end(), {"--without", fmt::format("{}", fmt::join(options_.without, ","))});
    for (const std::string& part : options_.only) command.insert(command.end(), {"--only", part});
    Worker worker;
    if (Status s = worker.start(std::move(command)); !s.ok()) return s.error().message;
    while (next_ < checks_.size()) {
      const Clock::time_point begin = Clock::now();
      const double limit = checks_[next_].limit_s;
      ordered_json line;
      switch (worker.hear(line, limit)) {
        case Worker::Heard::kNothing:
          return fmt::format("did not end within {} s", limit);
        case Worker::Heard::kEnd:
          return worker.how_it_ended();
        case Worker::Heard::kLine:
          break;
      }
      if (line.contains("measured")) report_.measured = line["measured"];
      const std::string fault = line.value("fault", "");
      put(fault, seconds_since(begin));
      if (!fault.empty() || (next_ < checks_.size() && !unprepared_[next_].empty())) return "";
    }
    return "";
  }

  const Clock::time_point begin_ = Clock::now();
  std::vector<Check> checks_;
  const CheckOptions& options_;
  std::string folder_;
  std::vector<std::string> unprepared_;  // by check: reason why it cannot run; "": none
  size_t next_ = 0;
  CheckReport report_;
};

// Writes the probes' kernels to the folder, as a cubin, or as PTX if there is no assembler.
Status put_probes(const std::string& folder, const Target& target, const std::string& flag) {
  const std::string ptx = make_probe_ptx(target);
  const Result<std::unique_ptr<Assembler>> assembler = find_assembler(flag);
  std::vector<std::byte> image(ptx.size() + 1);  // the driver reads PTX up to a terminating zero
  std::memcpy(image.data(), ptx.c_str(), image.size());
  if (assembler.ok()) {
    Result<Cubin> cubin = assembler.value()->assemble(ptx, target);
    if (!cubin.ok()) return cubin.error();
    image = std::move(cubin.value().bytes);
  }
  return mkrt::write_file(folder + "/probes", image);
}

Result<std::unique_ptr<Gpu>> open_gpu(const std::string& folder) {
  const mkrt::Result<mkrt::MappedFile> file = mkrt::map_file(folder + "/probes");
  if (!file.ok()) return file.error();
  const std::span<const std::byte> bytes = file.value().bytes;
  return Gpu::open(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

Result<CheckReport> check_device(const Target& target, const CheckOptions& options) {
  const mkrt::TemporaryFolder folder;
  if (folder.path.empty()) return Error{fmt::format("error: {}", mkrt::kNoTemporaryFolder)};
  if (Status put = put_probes(folder.path, target, options.assembler); !put.ok()) return put.error();
  return Checks(target.engines, options, folder.path).run();
}

Status run_checks(const std::string& folder, uint32_t first, const CheckOptions& options) {
  const mkrt::Result<mkrt::DeviceFacts> facts = mkrt::ask_cuda();
  if (!facts.ok()) return facts.error();
  const Result<Target> target = target_of_capability(facts.value().major, facts.value().minor);
  if (!target.ok()) return target.error();
  const Engines engines = without(target.value().engines, options.without);
  const std::vector<Probe> probes = probes_of(engines);
  const std::vector<BodyCheck> bodies = body_checks(engines);
  const std::vector<Check> checks = list_checks(engines, options);
  std::optional<Result<std::unique_ptr<Gpu>>> gpu;
  for (size_t i = first; i < checks.size(); ++i) {
    ordered_json line{{"check", checks[i].name}};
    std::string fault;
    if (checks[i].kind != Check::Kind::kBody && !gpu) gpu = open_gpu(folder);
    if (checks[i].kind == Check::Kind::kBody) {
      fault = run_body(bodies[checks[i].index], body_path(folder, checks[i].index));
    } else if (!gpu->ok()) {
      fault = gpu->error().message;
    } else if (checks[i].kind == Check::Kind::kPrimitive) {
      fault = run_probe(*gpu->value(), probes[checks[i].index]);
    } else {
      Result<Measurement> measured = measure(*gpu->value(), facts.value(), engines.bulk_copy);
      if (measured.ok())
        line["measured"] = {{"figures", measured.value().figures},
                            {"left_out", measured.value().left_out},
                            {"seen", measured.value().seen}};
      else
        fault = measured.error().message;
    }
    line["fault"] = fault;
    tell(line);
    if (!fault.empty()) break;
  }
  return {};
}

}  // namespace mkc
