// tamper tries all mutants of all targets, and goes on where the report ends. Usage: tamper REPORT.json
// [SECONDS].
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/attack/tamper/judge.h"
#include "tools/seconds.h"

namespace mkc::attack {
namespace {

constexpr size_t kAtOnce = 1024;  // mutants between two writes of the report

nlohmann::json read_report(const std::string& path) {
  std::ifstream in(path);
  return in ? nlohmann::json::parse(in) : nlohmann::json::object();
}

void add(nlohmann::json& to, const Edit& edit, const Tally& tally, size_t next) {
  to["mutants"] = edit.count();
  to["tried"] = next;
  for (size_t v = 1; v < kVerdictCount; ++v)
    to[kVerdicts[v]] = to.value(kVerdicts[v], uint64_t{0}) + tally.verdicts[v];
  for (const std::string& bad : tally.bad) to["bad"].push_back(bad);
}

int run(const std::string& path, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  nlohmann::json report = read_report(path);
  bool kept = true;
  for (const std::string& name : target_names()) {
    const Target target = make_target(name);
    for (const std::unique_ptr<Edit>& edit : edits_of(target)) {
      nlohmann::json& entry = report[name][edit->name()];
      if (entry.is_null()) entry = nlohmann::json::object();
      for (size_t at = entry.value("tried", size_t{0}); at < edit->count();) {
        if (seconds_since(begin) > seconds) return !kept;
        Tally tally;
        const size_t end = std::min(edit->count(), at + kAtOnce);
        judge(target, *edit, at, end, 1, tally);
        add(entry, *edit, tally, at = end);
        for (const std::string& bad : tally.bad) fmt::print("{}\n", bad);
        kept = kept && tally.bad.empty();
        std::ofstream(path) << report.dump(1) << "\n";
      }
      fmt::print("{}: {}: {}\n", name, edit->name(), entry.dump());
      std::fflush(stdout);
    }
  }
  return !kept;
}

}  // namespace
}  // namespace mkc::attack

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return std::fputs("usage: tamper REPORT.json [SECONDS]\n", stderr), 2;
  return mkc::attack::run(argv[1], argc == 3 ? std::atof(argv[2]) : 1e9);
}
