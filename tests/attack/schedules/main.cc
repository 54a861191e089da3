// attack_schedules attacks the checker of schedules with mutants.
//
//   attack_schedules --count 100000 --seed 1 --report F.json --save DIR     mutants 0 to 99999 of seed 1
//   attack_schedules --from F.json --count 900000 --report F.json           goes on where a report ends
//
// Exit code 1: an unsafe schedule is accepted, a crash, or a schedule of mkc's own is refused. The classes
// that --known names may fail.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/attack/schedules/campaign.h"

namespace mkc::attack {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const Totals& totals, uint64_t seed) {
  ordered_json classes = ordered_json::object();
  Counts all;
  for (const auto& [name, c] : totals.classes) {
    classes[name] = {{"mutants", c.mutants},
                     {"accepted", c.accepted},
                     {"equivalent", c.equivalent},
                     {"unsafe", c.unsafe},
                     {"unsafe_accepted", c.unsafe_accepted},
                     {"conservative", c.conservative},
                     {"crashed", c.crashed}};
    all.mutants += c.mutants, all.accepted += c.accepted, all.equivalent += c.equivalent,
        all.unsafe += c.unsafe;
    all.unsafe_accepted += c.unsafe_accepted, all.conservative += c.conservative, all.crashed += c.crashed;
  }
  return {{"seed", seed},
          {"next", totals.next},
          {"seconds", totals.seconds},
          {"bases", totals.bases},
          {"bases_refused", totals.bases_refused},
          {"bases_unsafe", totals.bases_unsafe},
          {"bases_crashed", totals.bases_crashed},
          {"mutants", all.mutants},
          {"accepted", all.accepted},
          {"equivalent", all.equivalent},
          {"unsafe", all.unsafe},
          {"unsafe_accepted", all.unsafe_accepted},
          {"conservative", all.conservative},
          {"crashed", all.crashed},
          {"classes", std::move(classes)}};
}

void from_json(const ordered_json& json, Totals& totals, uint64_t& seed) {
  seed = json.at("seed");
  totals.next = json.at("next"), totals.seconds = json.at("seconds"), totals.bases = json.at("bases");
  totals.bases_refused = json.at("bases_refused"), totals.bases_unsafe = json.at("bases_unsafe");
  totals.bases_crashed = json.at("bases_crashed");
  for (const auto& [name, c] : json.at("classes").items())
    totals.classes[name] = {c.at("mutants"),         c.at("accepted"),     c.at("equivalent"), c.at("unsafe"),
                            c.at("unsafe_accepted"), c.at("conservative"), c.at("crashed")};
}

std::set<std::string> lines_of(const std::string& file) {
  std::set<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') lines.insert(line);
  return lines;
}

int summarise(const Totals& totals, const std::set<std::string>& known) {
  bool failed = totals.bases_unsafe + totals.bases_crashed != 0 ||
                (totals.bases_refused != 0 && !known.contains("bases"));
  Counts all;
  for (const auto& [name, c] : totals.classes) {
    all.mutants += c.mutants, all.accepted += c.accepted, all.unsafe += c.unsafe;
    all.unsafe_accepted += c.unsafe_accepted, all.conservative += c.conservative, all.crashed += c.crashed;
    if (c.unsafe_accepted + c.crashed == 0) continue;
    failed = failed || !known.contains(name);
    fmt::print("{}{}: {} mutants, {} unsafe and accepted, {} crashed\n", name,
               known.contains(name) ? " (known)" : "", c.mutants, c.unsafe_accepted, c.crashed);
  }
  fmt::print("{} schedules: {} refused, {} unsafe, {} crashed\n", totals.bases, totals.bases_refused,
             totals.bases_unsafe, totals.bases_crashed);
  fmt::print(
      "{} mutants of {} classes in {:.0f} s: {} accepted, {} unsafe, {} unsafe and accepted, {} safe and "
      "refused, {} crashed\n",
      all.mutants, totals.classes.size(), totals.seconds, all.accepted, all.unsafe, all.unsafe_accepted,
      all.conservative, all.crashed);
  return failed ? 1 : 0;
}

int run(int argc, char** argv) {
  CLI::App app{"Mutants of schedules against the checker, with random runs as the judge."};
  Plan plan;
  std::string from, report, known, models = "fixtures";
  std::vector<std::string> classes;
  bool list = false;
  app.add_option("--seed", plan.seed, "of all mutants");
  app.add_option("--first", plan.first, "number of the first mutant");
  app.add_option("--count", plan.count, "mutants at most");
  app.add_option("--seconds", plan.seconds, "seconds at most; 0: no limit");
  app.add_option("--from", from, "report to go on from");
  app.add_option("--report", report, "JSON file with the figures of each class");
  app.add_option("--save", plan.save, "folder for unsafe schedules that are accepted");
  app.add_option("--known", known, "file with classes of which unsafe mutants are known to be accepted");
  app.add_option("--models", models, "fixtures or large")->check(CLI::IsMember({"fixtures", "large"}));
  app.add_option("--class", classes, "classes of mutants; all if none");
  app.add_option("--of-base", plan.of_base, "mutants of each schedule")->check(CLI::PositiveNumber);
  app.add_flag("--save-conservative", plan.save_conservative, "keep safe schedules that are refused, too");
  app.add_flag("--list", list, "print the names of the classes");
  CLI11_PARSE(app, argc, argv);
  if (list) {
    for (const MutantClass& c : all_classes()) fmt::print("{}\n", c.name);
    return 0;
  }
  plan.models = models == "large" ? Models::kLarge : Models::kFixtures;
  plan.classes = {classes.begin(), classes.end()};
  Totals totals;
  if (!from.empty()) {
    from_json(ordered_json::parse(std::ifstream(from)), totals, plan.seed);
    plan.first = totals.next;
  }
  double written = totals.seconds;
  const auto write = [&](const Totals& t) { std::ofstream(report) << to_json(t, plan.seed).dump(2) << "\n"; };
  run_campaign(plan, totals, [&](const Totals& t) {
    if (report.empty() || t.seconds - written < 10) return;
    written = t.seconds;
    write(t);
  });
  if (!report.empty()) write(totals);
  return summarise(totals, known.empty() ? std::set<std::string>() : lines_of(known));
}

}  // namespace
}  // namespace mkc::attack

int main(int argc, char** argv) {
  return mkc::attack::run(argc, argv);
}
