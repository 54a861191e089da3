// attack_models checks random models and settings against float64, and settings against each other bit by
// bit. Each case runs in a process of its own.
//
//   attack_models --seed 1 --count 1000 [--from 0] [--family gpt_oss] [--coding mxfp4]
//     [--report models.jsonl] [--seconds 120] [--quiet]
//
// The report gets a line of JSON for each case, and the summary says where to go on. Exit status 1: some case
// was wrong, failed, crashed or timed out.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "tests/apart.h"
#include "tests/attack/fatal_asserts.h"
#include "tests/attack/models_run.h"
#include "tools/seconds.h"

namespace mkc::attack {
namespace {

struct Arguments {
  uint64_t seed = 1, count = 100, from = 0;
  uint32_t seconds = 200;  // processor time that a case may take
  std::string report;
  std::string keep;  // directory for checkpoints of cases that fail; "": none
  Asked asked;
  bool quiet = false;
};

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs a case in the process of the case. Diagnostics go to a file.
std::string run_logged(const ModelCase& c, const std::string& directory) {
  const int log = open((directory + "/log").c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  dup2(log, STDERR_FILENO);
  const CaseResult r = run_case(c, directory);
  return nlohmann::json{{"verdict", r.verdict}, {"detail", r.detail},     {"refusal", r.refusal},
                        {"rows", r.rows},       {"bit_rows", r.bit_rows}, {"worst", r.worst}}
      .dump();
}

CaseResult run_case_apart(const ModelCase& c, const std::string& directory, uint32_t seconds) {
  using End = test::ApartResult::End;
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const test::ApartResult apart = test::run_apart([&] { return run_logged(c, directory); }, seconds);
  if (apart.end == End::kLate) return {Verdict::kTimedOut};
  if (apart.end == End::kCrashed)
    return {Verdict::kCrashed, apart.text + ": " + read_all(directory + "/log").substr(0, 400)};
  const auto j = nlohmann::json::parse(apart.text);
  return {j["verdict"], j["detail"],   j["refusal"],
          j["rows"],    j["bit_rows"], j["worst"].is_null() ? INFINITY : j["worst"].get<double>()};
}

// Returns the error without its numbers and places, so that equal ones are counted together.
std::string kind_of(const std::string& error) {
  static const std::regex kPath("^[^ ]*/[^ ]*:"), kNumber("[0-9]+");
  const std::string line = error.substr(0, error.find('\n'));
  return std::regex_replace(std::regex_replace(line, kPath, "PATH:"), kNumber, "N");
}

struct Totals {
  std::map<Verdict, uint64_t> verdicts;
  std::map<std::string, uint64_t> refusals;
  std::vector<uint64_t> bad;
  uint64_t rows = 0, bit_rows = 0;
  double worst = 0;

  void add(const ModelCase& c, const CaseResult& r) {
    ++verdicts[r.verdict];
    rows += r.rows;
    bit_rows += r.bit_rows;
    worst = std::max(worst, r.worst);
    if (!r.refusal.empty()) ++refusals[kind_of(r.refusal)];
    if (r.verdict != Verdict::kRefused && r.verdict != Verdict::kRight) bad.push_back(c.number);
  }
};

std::string options_of(const Asked& asked) {
  std::string options;
  if (asked.family) options += " --family " + *asked.family;
  if (asked.coding) options += fmt::format(" --coding '{}'", reference::coding_name(*asked.coding));
  return options;
}

void print(const Totals& totals, const Arguments& arguments, double seconds) {
  fmt::print("cases {} to {} of seed {}, {:.0f} s\n", arguments.from, arguments.from + arguments.count - 1,
             arguments.seed, seconds);
  for (const auto& [verdict, count] : totals.verdicts)
    fmt::print("  {:9} {}\n", verdict_name(verdict), count);
  fmt::print("  {} rows against float64, the worst at {:.2f} of what is allowed; {} rows bit by bit\n",
             totals.rows, totals.worst, totals.bit_rows);
  for (const auto& [error, count] : totals.refusals) fmt::print("  refused {} times: {}\n", count, error);
  for (const uint64_t number : totals.bad)
    fmt::print("  again: --seed {} --from {} --count 1{}\n", arguments.seed, number,
               options_of(arguments.asked));
  fmt::print("go on with --from {}\n", arguments.from + arguments.count);
}

int run(const Arguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const std::string directory =
      (std::filesystem::temp_directory_path() / fmt::format("attack_models.{}", getpid())).string();
  std::ofstream report;
  if (!arguments.keep.empty()) std::filesystem::create_directories(arguments.keep);
  if (!arguments.report.empty()) report.open(arguments.report, std::ios::app);
  const Clock::time_point begun = Clock::now();
  Totals totals;
  for (uint64_t number = arguments.from; number < arguments.from + arguments.count; ++number) {
    const ModelCase c = make_case(arguments.seed, number, arguments.asked);
    const Clock::time_point case_begun = Clock::now();
    const CaseResult r = run_case_apart(c, directory, arguments.seconds);
    totals.add(c, r);
    const bool bad = r.verdict != Verdict::kRefused && r.verdict != Verdict::kRight;
    if (bad || !arguments.quiet)
      fmt::print("{} {} {:.2f} {}\n", number, verdict_name(r.verdict), r.worst, r.detail);
    if (bad) fmt::print("  {}\n", to_json(c));
    fflush(stdout);
    if (bad && !arguments.keep.empty())
      std::filesystem::copy(directory, fmt::format("{}/{}.{}", arguments.keep, arguments.seed, number),
                            std::filesystem::copy_options::recursive);
    if (report.is_open())
      report << nlohmann::json{{"seed", arguments.seed},
                               {"case", number},
                               {"verdict", verdict_name(r.verdict)},
                               {"detail", r.detail},
                               {"refusal", r.refusal},
                               {"rows", r.rows},
                               {"bit_rows", r.bit_rows},
                               {"worst", r.worst},
                               {"seconds", seconds_since(case_begun)},
                               {"config", nlohmann::json::parse(to_json(c))}}
             << std::endl;
  }
  std::filesystem::remove_all(directory);
  print(totals, arguments, seconds_since(begun));
  return totals.bad.empty() ? 0 : 1;
}

}  // namespace
}  // namespace mkc::attack

int main(int argc, char** argv) {
  const mkc::attack::FatalAsserts asserts;
  mkc::attack::Arguments arguments;
  CLI::App app("random models and settings against float64, and against each other bit by bit");
  app.add_option("--seed", arguments.seed, "of all cases");
  app.add_option("--count", arguments.count, "of cases");
  app.add_option("--from", arguments.from, "the first case");
  app.add_option("--seconds", arguments.seconds, "of the processor that a case may take");
  app.add_option("--report", arguments.report, "file that gets a line of JSON for each case");
  app.add_option("--keep", arguments.keep, "directory for the checkpoints of cases that fail");
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
  return mkc::attack::run(arguments);
}
