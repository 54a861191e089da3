// attack_faults disturbs launches on the emulator, one thing at a time: notifications, tickets, copies,
// workers and counters. Each case runs in a process of its own.
//
//   attack_faults --seed 1 --count 10000 --report faults.json [--seconds 600] [--quiet]
//   attack_faults --seed 1 --only 17                                  the 17th case alone, with what it says
//
// A run goes on where its report ends. Exit status 1: findings.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/attack/bump.h"
#include "tests/attack/fatal_asserts.h"
#include "tests/attack/faults_run.h"
#include "tools/seconds.h"

namespace mkc::attack {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

constexpr uint32_t kCaseSeconds = 120;  // processor time of a case, at most
constexpr uint64_t kBetweenWrites = 100;

struct Arguments {
  uint64_t seed = 1, count = 100, from = 0;
  std::optional<uint64_t> only;
  double seconds = 0;  // time limit; 0: none
  uint64_t models = 0;
  std::string report;
  bool quiet = false;
};

class Report {
 public:
  Report(const Arguments& arguments, uint64_t models) : path_(arguments.report) {
    if (std::ifstream in(path_); in && !path_.empty()) {
      json_ = ordered_json::parse(in);
      return;
    }
    json_ = {{"seed", arguments.seed},
             {"models", models},
             {"next", arguments.from},
             {"seconds", 0.0},
             {"cases", 0},
             {"findings", 0},
             {"kinds", ordered_json::object()},
             {"found", ordered_json::array()}};
    for (const FaultKind& kind : fault_kinds())
      json_["kinds"][kind.name] = {{"harmless", kind.end == FaultEnd::kSameBits},
                                   {"run", 0},
                                   {"same bits", 0},
                                   {"reported", 0},
                                   {"did not happen", 0},
                                   {"findings", 0},
                                   {"by", ordered_json::object()}};
  }

  uint64_t seed() const { return json_["seed"]; }
  uint64_t models() const { return json_["models"]; }
  uint64_t next() const { return json_["next"]; }
  uint64_t findings() const { return json_["findings"]; }

  void add(const FaultCase& c, uint64_t number, const FaultResult& r, double seconds) {
    ordered_json& kind = json_["kinds"][fault_kinds()[c.kind].name];
    const bool bad = is_finding(r.verdict);
    bump(json_["cases"]);
    bump(kind["run"]);
    bump(kind[bad ? "findings" : verdict_name(r.verdict)]);
    if (r.verdict == FaultVerdict::kReported) bump(kind["by"][r.how]);
    if (bad) {
      bump(json_["findings"]);
      json_["found"].push_back(
          {{"case", number}, {"verdict", verdict_name(r.verdict)}, {"detail", r.detail.substr(0, 400)}});
    }
    json_["next"] = number + 1;
    json_["seconds"] = json_["seconds"].get<double>() + seconds;
  }

  void write() const {
    if (!path_.empty()) std::ofstream(path_) << json_.dump(1) << "\n";
  }

  void print() const {
    for (const auto& [name, k] : json_["kinds"].items())
      if (k["run"] != 0)
        fmt::print("{}: {} run, {} same bits, {} reported {}, {} did not happen, {} findings\n", name,
                   k["run"].dump(), k["same bits"].dump(), k["reported"].dump(), k["by"].dump(),
                   k["did not happen"].dump(), k["findings"].dump());
    fmt::print("{} cases in {:.0f} s, {} findings\n", json_["cases"].dump(), json_["seconds"].get<double>(),
               json_["findings"].dump());
  }

 private:
  std::string path_;
  ordered_json json_;
};

// A model is compiled when its first case comes.
class Fixtures {
 public:
  explicit Fixtures(uint64_t models) : models_(fault_models()), made_(models) {
    directory_ =
        (std::filesystem::temp_directory_path() / fmt::format("attack_faults.{}", getpid())).string();
    std::filesystem::create_directories(directory_);
  }
  ~Fixtures() { std::filesystem::remove_all(directory_); }

  const Fixture& of(uint64_t number) {
    std::optional<Fixture>& fixture = made_[number % made_.size()];
    if (fixture) return *fixture;
    const FaultModel& model = models_[number % made_.size()];
    const std::string directory = fmt::format("{}/{}", directory_, number % made_.size());
    std::filesystem::create_directories(directory);
    Result<Fixture> made = make_fixture(model, directory);
    if (!made.ok()) {
      fmt::print(stderr, "{}: {}\n", model.name, made.error().message);
      exit(2);
    }
    return fixture.emplace(std::move(made.value()));
  }

 private:
  std::vector<FaultModel> models_;
  std::vector<std::optional<Fixture>> made_;
  std::string directory_;
};

int run(const Arguments& arguments) {
  const uint64_t max = fault_models().size();
  Report report(arguments, arguments.models == 0 ? max : std::min(arguments.models, max));
  Fixtures fixtures(report.models());
  const uint64_t first = arguments.only.value_or(report.next()),
                 end = first + (arguments.only ? 1 : arguments.count);
  const Clock::time_point begun = Clock::now();
  for (uint64_t number = first; number < end; ++number) {
    if (arguments.seconds != 0 && seconds_since(begun) > arguments.seconds) break;
    const Fixture& fixture = fixtures.of(number);
    const FaultCase c = make_fault(fixture, report.seed(), number);
    const Clock::time_point case_begun = Clock::now();
    const FaultResult r = run_fault(fixture, c, kCaseSeconds);
    report.add(c, number, r, seconds_since(case_begun));
    if (is_finding(r.verdict) || !arguments.quiet) {
      fmt::print("{} {}: {}: {} {} {}\n", number, fixture.of.name, fault_kinds()[c.kind].name,
                 verdict_name(r.verdict), r.how,
                 arguments.only ? r.detail : r.detail.substr(0, r.detail.find('\n')));
      if (is_finding(r.verdict) || arguments.only) fmt::print("  {}\n", to_json(c));
      fflush(stdout);
    }
    if (number % kBetweenWrites == 0 && !arguments.only) report.write();
  }
  if (arguments.only) return report.findings() != 0;
  report.write();
  report.print();
  return report.findings() != 0;
}

}  // namespace
}  // namespace mkc::attack

int main(int argc, char** argv) {
  const mkc::attack::FatalAsserts asserts;
  mkc::attack::Arguments arguments;
  CLI::App app("launches on the emulator, with one thing that goes wrong in each");
  app.add_option("--seed", arguments.seed, "of all cases");
  app.add_option("--count", arguments.count, "of cases");
  app.add_option("--from", arguments.from, "the first case, where there is no report");
  app.add_option("--only", arguments.only, "one case, which no report gets");
  app.add_option("--seconds", arguments.seconds, "after which no case begins; 0: no limit");
  app.add_option("--models", arguments.models, "the first so many; 0: all");
  app.add_option("--report", arguments.report,
                 "JSON file with the figures of each kind; gone on with if it is there");
  app.add_flag("--quiet", arguments.quiet, "print only findings, and the summary");
  CLI11_PARSE(app, argc, argv);
  return mkc::attack::run(arguments);
}
