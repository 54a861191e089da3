#include "tools/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>

#include "codegen/assembler.h"
#include "codegen/nvptx.h"
#include "runtime/base/file.h"
#include "runtime/base/temporaries.h"
#include "runtime/device/container_limits.h"
#include "tools/doctor/bodies.h"
#include "tools/doctor/jobs.h"
#include "tools/doctor/measure.h"
#include "tools/doctor/probes.h"
#include "tools/doctor/worker.h"
#include "tools/output.h"
#include "tools/seconds.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Limits in seconds. The driver starts several GPUs in turn where persistence mode is off.
constexpr double kOpenSeconds = 60, kProbeSeconds = 5, kBodySeconds = 20, kMeasureSeconds = 20,
                 kEndSeconds = 2;

struct Check {
  enum class Kind { kPrimitive, kBody, kMeasure };
  Kind kind;
  size_t index;  // index among the checks of its kind, before `only` selects some
  std::string name, without;
  double limit_s;
};

// Returns the checks in a fixed order. The two processes name a check by its index in this list. Bodies come
// last, as their kernels are compiled meanwhile.
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
  add(Check::Kind::kMeasure, 0, "measure", "", kMeasureSeconds);
  index = 0;
  for (const BodyCheck& b : body_checks(engines))
    add(Check::Kind::kBody, index++, "body " + b.name, b.without, kBodySeconds);
  return checks;
}

std::string body_path(const std::string& folder, size_t index) {
  return fmt::format("{}/body-{}.cubin", folder, index);
}

void tell(const ordered_json& object) {
  print_out("{}\n", json_text(object));
  std::fflush(stdout);
}

// Writes the probes' kernels to the folder, as a cubin, or as PTX if there is no assembler.
Status put_probes(const std::string& folder, const Target& target, const Assembler* assembler) {
  const std::string ptx = make_probe_ptx(target);
  std::vector<std::byte> image(ptx.size() + 1);  // the driver reads PTX up to a terminating zero
  std::memcpy(image.data(), ptx.c_str(), image.size());
  if (assembler) {
    Result<Cubin> cubin = assembler->assemble(ptx, target);
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

class Checks {
 public:
  Checks(const Target& target, const CheckOptions& options, std::string folder)
      : target_(target),
        checks_(list_checks(target.engines, options)),
        options_(options),
        folder_(std::move(folder)) {
    report_.threads = mkrt::usable_threads();
  }

  // Compiles the models of bodies while the other checks run.
  Result<CheckReport> run() {
    const Result<std::unique_ptr<Assembler>> assembler = find_assembler(options_.assembler, options_.driver);
    if (!assembler.ok()) no_assembler_ = assembler.error().message;
    Jobs compiling(body_jobs(), report_.threads);
    const Status probes = put_probes(folder_, target_, assembler.ok() ? assembler.value().get() : nullptr);
    report_.probe_seconds = seconds_since(begin_);
    if (probes.ok()) run_until(first_body());
    if (!probes.ok() || !report_.unusable.empty()) compiling.stop();
    compiling.join();
    if (!probes.ok()) return probes.error();
    run_until(checks_.size());
    report_.seconds = seconds_since(begin_);
    return std::move(report_);
  }

 private:
  size_t first_body() const {
    const auto is_body = [](const Check& c) { return c.kind == Check::Kind::kBody; };
    return static_cast<size_t>(std::ranges::find_if(checks_, is_body) - checks_.begin());
  }

  // Returns jobs that compile the models of body checks. A kernel for more tokens takes longer, and goes
  // first.
  std::vector<std::function<void()>> body_jobs() {
    const std::vector<BodyCheck> bodies = body_checks(target_.engines);
    prepared_.resize(checks_.size());
    std::vector<size_t> order;
    for (size_t i = first_body(); i < checks_.size() && no_assembler_.empty(); ++i) order.push_back(i);
    std::ranges::sort(order, std::greater(),
                      [&](size_t i) { return std::pair(bodies[checks_[i].index].max_tokens, i); });
    std::vector<std::function<void()>> jobs;
    for (const size_t i : order)
      jobs.emplace_back([this, i, body = bodies[checks_[i].index]] {
        prepared_[i] =
            prepare_body(body, options_.without, options_.assembler, body_path(folder_, checks_[i].index));
        compiled_ = seconds_since(begin_);
      });
    return jobs;
  }

  // Runs the checks before number `end`, unless the GPU cannot be used.
  void run_until(size_t end) {
    end_ = end;
    report_.compile_seconds = std::max(report_.probe_seconds, compiled_.load());
    for (put_unprepared(); next_ < end_ && report_.unusable.empty(); put_unprepared())
      if (const std::string fault = run_worker(); !fault.empty()) put(fault, 0);
  }

  void put(const std::string& fault, double seconds) {
    const Check& check = checks_[next_];
    if (check.kind == Check::Kind::kMeasure) {
      report_.measured_fault = fault;
      report_.measure_seconds += seconds;
    } else {
      const PreparedBody& made = prepared_[next_];
      report_.checks.push_back({check.name, fault, "", check.without, seconds, made.seconds, made.cached});
      report_.check_seconds += seconds;
    }
    ++next_;
  }

  // Puts the outcome of all bodies that come next and have no kernel.
  void put_unprepared() {
    for (; next_ < end_ && checks_[next_].kind == Check::Kind::kBody;) {
      if (no_assembler_.empty() && prepared_[next_].fault.empty()) return;
      put(prepared_[next_].fault, 0);
      report_.checks.back().skipped = no_assembler_;
    }
  }

  Status start(CheckWorker& worker) const {
    std::vector<std::string> command{"mkc",      "doctor",
                                     "--worker", folder_,
                                     "--first",  std::to_string(next_),
                                     "--end",    std::to_string(end_)};
    if (!options_.without.empty())
      command.insert(command.end(), {"--without", fmt::format("{}", fmt::join(options_.without, ","))});
    for (const std::string& part : options_.only) command.insert(command.end(), {"--only", part});
    return worker.start(std::move(command));
  }

  // Waits until the process has opened the GPU. Returns the reason why it has not, or "".
  std::string opening_fault(CheckWorker& worker) {
    const Clock::time_point begin = Clock::now();
    ordered_json line;
    const CheckWorker::Heard heard = worker.hear(line, kOpenSeconds);
    if (report_.open_seconds == 0) report_.first_open_seconds = seconds_since(begin);
    report_.open_seconds += seconds_since(begin);
    if (heard == CheckWorker::Heard::kNothing)
      return fmt::format("opening the GPU did not end within {} s", kOpenSeconds);
    if (heard == CheckWorker::Heard::kEnd) return "opening the GPU: " + worker.how_it_ended();
    if (report_.free_bytes == 0) report_.free_bytes = line.value("free_bytes", uint64_t{0});
    return line.value("unusable", "");
  }

  // Runs checks from the next one on in a new process. Returns the fault of a check that ended the process or
  // exceeded its limit, else "".
  std::string run_worker() {
    CheckWorker worker;
    if (Status s = start(worker); !s.ok())
      report_.unusable = s.error().message;
    else
      report_.unusable = opening_fault(worker);
    if (!report_.unusable.empty()) return "";
    for (; next_ < end_; put_unprepared()) {
      const Clock::time_point begin = Clock::now();
      const double limit = checks_[next_].limit_s;
      ordered_json line;
      switch (worker.hear(line, limit)) {
        case CheckWorker::Heard::kNothing:
          return fmt::format("did not end within {} s", limit);
        case CheckWorker::Heard::kEnd:
          return worker.how_it_ended();
        case CheckWorker::Heard::kLine:
          break;
      }
      if (line.contains("measured")) report_.measured = line["measured"];
      const std::string fault = line.value("fault", "");
      put(fault, seconds_since(begin));
      if (!fault.empty()) return "";
    }
    ordered_json rest;
    worker.hear(rest, kEndSeconds);  // its process gives the GPU back
    return "";
  }

  const Clock::time_point begin_ = Clock::now();
  const Target& target_;
  std::vector<Check> checks_;
  const CheckOptions& options_;
  std::string folder_;
  std::string no_assembler_;            // reason why bodies are not checked, or ""
  std::vector<PreparedBody> prepared_;  // by check
  size_t next_ = 0, end_ = 0;
  std::atomic<double> compiled_ = 0;  // seconds until the last kernel of a body was there
  CheckReport report_;
};

ordered_json measured_json(const Measurement& m) {
  return {{"figures", m.figures}, {"left_out", m.left_out}, {"seen", m.seen}, {"clock_mhz", m.clock_mhz}};
}

}  // namespace

bool has_check(const std::string& part) {
  CheckOptions options;
  options.only = {part};
  return std::ranges::any_of(targets(), [&](const Target& t) {
    return !is_processor(t) && !list_checks(t.engines, options).empty();
  });
}

std::string check_limits() {
  return fmt::format(
      "opening the GPU may take {} s, a primitive {} s, and measuring {} s, while kernels of bodies are "
      "compiled; then a body {} s",
      kOpenSeconds, kProbeSeconds, kMeasureSeconds, kBodySeconds);
}

Result<CheckReport> check_device(const Target& target, const CheckOptions& options) {
  const mkrt::TemporaryFolder folder;
  if (folder.path.empty()) return Error{fmt::format("error: {}", folder.fault())};
  return Checks(target, options, folder.path).run();
}

Status run_checks(const std::string& folder, uint32_t first, uint32_t end, const CheckOptions& options) {
  const mkrt::Result<mkrt::DeviceFacts> facts = mkrt::ask_cuda();
  if (!facts.ok()) return facts.error();
  const Result<Target> target = target_of_capability(facts.value().major, facts.value().minor);
  if (!target.ok()) return target.error();
  const Engines engines = without(target.value().engines, options.without);
  const std::vector<Probe> probes = probes_of(engines);
  const std::vector<BodyCheck> bodies = body_checks(engines);
  const std::vector<Check> checks = list_checks(engines, options);
  const Result<std::unique_ptr<Gpu>> gpu = open_gpu(folder);
  if (!gpu.ok()) {
    tell({{"unusable", gpu.error().message}});
    return {};
  }
  tell({{"free_bytes", gpu.value()->free_bytes()}});
  for (size_t i = first; i < std::min<size_t>(end, checks.size()); ++i) {
    ordered_json line{{"check", checks[i].name}};
    std::string fault;
    const std::string path = body_path(folder, checks[i].index);
    if (checks[i].kind == Check::Kind::kBody) {
      if (mkrt::is_absent(path)) continue;
      fault = run_body(bodies[checks[i].index], path);
    } else if (checks[i].kind == Check::Kind::kPrimitive) {
      fault = run_probe(*gpu.value(), probes[checks[i].index]);
    } else {
      const Result<Measurement> measured = measure(*gpu.value(), facts.value(), engines.bulk_copy);
      if (measured.ok())
        line["measured"] = measured_json(measured.value());
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
