// attack_models checks random models and settings against float64, and runs of one model against each other
// bit by bit. Each case runs in a process of its own.
//
//   attack_models --device both --seed 1 --count 1000 --report models.json [--seconds 600] [--quiet]
//   attack_models --device cpu --seed 1 --from 17 --count 1       one case alone, with what it is
//
// A run goes on where its report ends. Exit status 1: some case was wrong, failed, crashed or timed out.
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/device/processor.h"
#include "tests/apart.h"
#include "tests/attack/fatal_asserts.h"
#include "tests/attack/models_report.h"
#include "tests/attack/models_run.h"
#include "tools/seconds.h"

namespace mkc::attack {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kCaseSeconds = 200;  // processor time that a case may take
constexpr uint64_t kBetweenWrites = 100;
constexpr int kMappedFrom = 32 << 20;  // bytes of an allocation, the greatest that glibc takes
constexpr int kKeptBytes = 1 << 30;

struct Arguments {
  uint64_t seed = 1, count = 100;
  std::optional<uint64_t> from;  // nothing: where the report ends
  double seconds = 0;            // seconds after which no case begins; 0: no limit
  std::string report;
  std::string keep;  // directory for checkpoints of cases that fail; "": none
  std::vector<DeviceKind> devices{DeviceKind::kEmulator};
  Asked asked;
  bool quiet = false;
};

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Keeps freed memory in the process. Without it, a tenth of the time goes to pages that the system clears.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kMappedFrom);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
}

// Runs a case in the process of the case. Diagnostics go to a file.
std::string run_logged(const ModelCase& c, const std::string& directory) {
  const int log = open((directory + "/log").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  dup2(log, STDERR_FILENO);
  const CaseResult r = run_case(c, directory);
  return nlohmann::json{{"verdict", r.verdict},   {"detail", r.detail},
                        {"refusal", r.refusal},   {"compiled", r.compiled},
                        {"runs", r.runs},         {"rows", r.rows},
                        {"bit_rows", r.bit_rows}, {"second_bound", r.second_bound},
                        {"worst", r.worst}}
      .dump();
}

CaseResult run_case_apart(const ModelCase& c, const std::string& directory) {
  using End = test::ApartResult::End;
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const test::ApartResult apart = test::run_apart([&] { return run_logged(c, directory); }, kCaseSeconds);
  if (apart.end == End::kLate) return {Verdict::kTimedOut};
  if (apart.end == End::kCrashed)
    return {Verdict::kCrashed, apart.text + ": " + read_all(directory + "/log").substr(0, 400)};
  const auto j = nlohmann::json::parse(apart.text);
  return {j["verdict"],  j["detail"],       j["refusal"],
          j["compiled"], j["runs"],         j["rows"],
          j["bit_rows"], j["second_bound"], j["worst"].is_null() ? INFINITY : j["worst"].get<double>()};
}

struct Totals {
  uint64_t cases = 0, refused = 0, findings = 0, compiled = 0, runs = 0, rows = 0, bit_rows = 0;
  double worst = 0, seconds = 0;

  void add(const CaseResult& r, double took) {
    ++cases;
    refused += r.verdict == Verdict::kRefused;
    findings += is_finding(r.verdict);
    compiled += r.compiled;
    runs += r.runs;
    rows += r.rows;
    bit_rows += r.bit_rows;
    worst = std::max(worst, r.worst);
    seconds += took;
  }
};

// Returns the command that runs a case again.
std::string again(const ModelCase& c, const Arguments& arguments) {
  std::string command = fmt::format("build/tests/attack_models --device {} --seed {} --from {} --count 1",
                                    device_name(c.device), arguments.seed, c.number);
  const auto& [family, coding] = arguments.asked;
  if (family) command += " --family " + *family;
  if (coding) command += fmt::format(" --coding '{}'", reference::coding_name(*coding));
  return command;
}

class Attack {
 public:
  explicit Attack(const Arguments& arguments) : arguments_(arguments), report_(arguments.report) {
    for (const DeviceKind device : arguments.devices)
      next_[device] = arguments.from ? *arguments.from : report_.begin(device, arguments.seed);
    if (!arguments.keep.empty()) std::filesystem::create_directories(arguments.keep);
  }
  ~Attack() { std::filesystem::remove_all(directory_); }
  Attack(const Attack&) = delete;
  Attack& operator=(const Attack&) = delete;

  // Returns whether some case is a finding.
  bool run() {
    for (uint64_t i = 0; i < arguments_.count; ++i) {
      if (arguments_.seconds != 0 && seconds_since(begun_) > arguments_.seconds) break;
      for (const DeviceKind device : arguments_.devices) run_one(device);
      if (i % kBetweenWrites == 0) report_.write();
    }
    report_.write();
    for (const auto& [device, totals] : totals_) print(device, totals);
    return std::any_of(totals_.begin(), totals_.end(), [](const auto& t) { return t.second.findings != 0; });
  }

 private:
  void run_one(DeviceKind device) {
    const ModelCase c = make_case(arguments_.seed, next_[device]++, device, arguments_.asked);
    const Clock::time_point begun = Clock::now();
    const CaseResult r = run_case_apart(c, directory_);
    const double seconds = seconds_since(begun);
    totals_[device].add(r, seconds);
    report_.add(c, r, seconds, again(c, arguments_));
    if (is_finding(r.verdict) || !arguments_.quiet) tell(c, r, seconds);
    if (is_finding(r.verdict) && !arguments_.keep.empty())
      std::filesystem::copy(
          directory_,
          fmt::format("{}/{}.{}.{}", arguments_.keep, device_name(device), arguments_.seed, c.number),
          std::filesystem::copy_options::recursive);
  }

  void tell(const ModelCase& c, const CaseResult& r, double seconds) const {
    fmt::print("{} {} {} {:.2f} {:.2f} s {}\n", device_name(c.device), c.number, verdict_name(r.verdict),
               r.worst, seconds, r.detail);
    if (is_finding(r.verdict)) fmt::print("  again: {}\n", again(c, arguments_));
    if (is_finding(r.verdict) || arguments_.count == 1) fmt::print("  {}\n", to_json(c));
    fflush(stdout);
  }

  static void print(DeviceKind device, const Totals& t) {
    fmt::print("{}: {} cases in {:.0f} s, {} refused, {} findings; {} compilations, {} runs\n",
               device_name(device), t.cases, t.seconds, t.refused, t.findings, t.compiled, t.runs);
    fmt::print("  {} rows against float64, the worst at {:.2f} of what is allowed; {} rows bit by bit\n",
               t.rows, t.worst, t.bit_rows);
  }

  const Arguments& arguments_;
  ModelsReport report_;
  std::map<DeviceKind, uint64_t> next_;
  std::map<DeviceKind, Totals> totals_;
  Clock::time_point begun_ = Clock::now();
  std::string directory_ =
      (std::filesystem::temp_directory_path() / fmt::format("attack_models.{}", getpid())).string();
};

}  // namespace
}  // namespace mkc::attack

int main(int argc, char** argv) {
  const mkc::attack::FatalAsserts asserts;
  mkc::attack::keep_freed_memory();
  (void)mkrt::ns_per_tick();  // the processes of cases inherit what is measured once
  mkc::attack::Arguments arguments;
  CLI::App app("random models and settings against float64, and against each other bit by bit");
  app.add_option("--seed", arguments.seed, "of all cases");
  app.add_option("--count", arguments.count, "of cases of each device");
  app.add_option("--from", arguments.from, "the first case; default: where the report ends");
  app.add_option("--seconds", arguments.seconds, "after which no case begins; 0: no limit");
  app.add_option("--report", arguments.report, "JSON file that the cases are added to")->excludes("--from");
  app.add_option("--keep", arguments.keep, "directory for the checkpoints of cases that fail");
  std::string device = "both";
  app.add_option("--device", device, "that runs the cases")
      ->check(CLI::IsMember({"cpu", "emulator", "both"}));
  std::map<std::string, reference::Coding> codings;
  for (const reference::Coding coding : reference::kCodings) codings[reference::coding_name(coding)] = coding;
  app.add_option("--family", arguments.asked.family, "of all cases; default: random")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(mkc::attack::kFamilies), std::end(mkc::attack::kFamilies))));
  app.add_option("--coding", arguments.asked.coding,
                 "coding of the weights of all cases; default: random, or none")
      ->transform(CLI::CheckedTransformer(codings));
  app.add_flag("--quiet", arguments.quiet, "print only cases that fail, and the summary");
  CLI11_PARSE(app, argc, argv);
  const auto& [family, coding] = arguments.asked;
  if (family && coding && !mkc::attack::may_have(*family, *coding)) {
    fmt::print(stderr, "attack_models: error: checkpoints of {} have no coding {}\n", *family,
               reference::coding_name(*coding));
    return 1;
  }
  arguments.devices.clear();
  if (device != "emulator") arguments.devices.push_back(mkc::attack::DeviceKind::kProcessor);
  if (device != "cpu") arguments.devices.push_back(mkc::attack::DeviceKind::kEmulator);
  return mkc::attack::Attack(arguments).run();
}
