#include "tests/attack/schedules/campaign.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "ir/print.h"
#include "tests/attack/schedules/verdict.h"
#include "tests/mkir_files.h"
#include "tools/seconds.h"

namespace mkc::attack {
namespace {

constexpr unsigned kMutantSeconds = 120;  // limit of one mutant, which then counts as a crash

Rng rng_of(uint64_t seed, uint64_t number, uint64_t what) {
  Rng rng{seed * 0x9e3779b97f4a7c15u + number};
  rng.state = rng.next() ^ what;
  rng.next();
  return rng;
}

// Returns the lines of each text that the other lacks.
std::string difference(const std::string& before, const std::string& after) {
  const std::vector<std::string> a = test::split_lines(before), b = test::split_lines(after);
  const std::multiset<std::string> in_a(a.begin(), a.end()), in_b(b.begin(), b.end());
  std::string text;
  for (const std::string& line : a)
    if (!in_b.contains(line)) text += "- " + line + "\n";
  for (const std::string& line : b)
    if (!in_a.contains(line)) text += "+ " + line + "\n";
  return text;
}

// The maker is the part of a campaign that may crash.
class Maker {
 public:
  Maker(const Plan& plan, int pipe) : plan_(plan), pipe_(pipe), classes_(all_classes()) {
    for (uint32_t i = 0; i < classes_.size(); ++i)
      if (plan.classes.empty() || plan.classes.contains(classes_[i].name)) chosen_.push_back(i);
  }

  // Saves the schedule at which the process ended.
  void save_crash(uint64_t number, bool base) {
    Rng rng = rng_of(plan_.seed, number / plan_.of_base, 1);
    Result<Base> made = draw_base(plan_.models, rng);
    if (!made.ok()) return;
    base_ = std::move(made.value());
    if (base) return save(fmt::format("crash-base-{}", number / plan_.of_base), base_.schedule, "crash");
    rng = rng_of(plan_.seed, number, 2);
    const MutantClass& chosen = classes_[rng.pick(chosen_)];
    Schedule mutant = base_.schedule;
    Edit edit{mutant, rng};
    chosen.apply(edit);
    save(fmt::format("crash-{}-{}", chosen.name, number), mutant, "crash");
  }

  void run(uint64_t first, uint64_t end) {
    for (uint64_t number = first; number < end; ++number) {
      if (!base_known_ || number / plan_.of_base != base_number_) make_base(number / plan_.of_base, number);
      if (!base_known_) {  // the base is not there, and all its mutants are skipped
        number = (number / plan_.of_base + 1) * plan_.of_base - 1;
        continue;
      }
      alarm(kMutantSeconds);
      make_mutant(number);
    }
  }

 private:
  void send(const Record& record) const {
    if (write(pipe_, &record, sizeof record) != static_cast<ssize_t>(sizeof record)) _exit(1);
  }

  void make_base(uint64_t base_number, uint64_t number) {
    alarm(10 * kMutantSeconds);
    base_number_ = base_number;
    base_known_ = false;
    Rng rng = rng_of(plan_.seed, base_number, 1);
    Record record{number, UINT32_MAX, Outcome::kBaseNone, 1};
    send(record);
    record.begins = 0;
    Result<Base> base = draw_base(plan_.models, rng);
    if (!base.ok()) {
      fmt::print(stderr, "base {}: {}\n", base_number, base.error().message);
      return send(record);
    }
    base_ = std::move(base.value());
    text_.clear();
    std::string why;
    record.outcome = is_accepted(base_.schedule, &why) ? Outcome::kBaseFine : Outcome::kBaseRefused;
    if (record.outcome == Outcome::kBaseFine) {
      const std::optional<Finding> finding =
          judge(base_.schedule, {}, plan_.models == Models::kLarge ? Effort{3, 1, 8} : Effort{12, 2}, rng);
      if (finding) record.outcome = Outcome::kBaseUnsafe, why = finding->kind + ": " + finding->text;
    }
    base_known_ = record.outcome == Outcome::kBaseFine;
    if (!base_known_) save(fmt::format("base-{}", base_number), base_.schedule, why);
    send(record);
  }

  void make_mutant(uint64_t number) {
    Rng rng = rng_of(plan_.seed, number, 2);
    Record record{number, rng.pick(chosen_), Outcome::kNone, 1};
    send(record);
    record.begins = 0;
    Schedule mutant = base_.schedule;
    Edit edit{mutant, rng};
    if (!classes_[record.mutant_class].apply(edit) || mutant == base_.schedule) return send(record);
    std::string why;
    const bool accepted = is_accepted(mutant, &why);
    // Refused mutants are judged with less effort.
    const Effort effort = plan_.models == Models::kLarge ? Effort{accepted ? 3u : 1u, 1, 8}
                          : accepted                     ? Effort{10, 2}
                                                         : Effort{4, 1};
    const std::optional<Finding> finding = judge(mutant, edit.hints, effort, rng);
    record.outcome = accepted  ? finding ? Outcome::kAcceptedUnsafe : Outcome::kAcceptedSafe
                     : finding ? Outcome::kRefusedUnsafe
                               : Outcome::kRefusedSafe;
    if (record.outcome == Outcome::kAcceptedUnsafe)
      save(fmt::format("{}-{}", classes_[record.mutant_class].name, number), mutant,
           finding->kind + ": " + finding->text);
    if (plan_.save_conservative && record.outcome == Outcome::kRefusedSafe)
      save(fmt::format("conservative-{}-{}", classes_[record.mutant_class].name, number), mutant, why);
    send(record);
  }

  void save(const std::string& name, const Schedule& schedule, const std::string& why) {
    if (text_.empty()) text_ = print(base_.schedule);
    const std::string text = print(schedule), diff = difference(text_, text);
    fmt::print(stderr, "{} of {}\n{}\n{}\n", name, base_.what, why, diff.substr(0, 2000));
    if (plan_.save.empty()) return;
    std::filesystem::create_directories(plan_.save);
    std::ofstream(plan_.save + "/" + name + ".mkir") << text;
    std::ofstream(plan_.save + "/" + name + ".txt") << base_.what << "\n" << why << "\n" << diff;
  }

  const Plan& plan_;
  int pipe_;
  std::vector<MutantClass> classes_;
  std::vector<uint32_t> chosen_;
  Base base_;
  std::string text_;
  uint64_t base_number_ = 0;
  bool base_known_ = false;
};

void save_crash_apart(const Plan& plan, const Record& record) {
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    Maker(plan, -1).save_crash(record.number, record.mutant_class == UINT32_MAX);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

void count(const Record& record, bool crashed, const std::vector<MutantClass>& classes, Totals& totals) {
  totals.next = record.number + 1;
  if (record.mutant_class == UINT32_MAX) {
    ++totals.bases;
    totals.bases_crashed += crashed;
    totals.bases_refused += record.outcome == Outcome::kBaseRefused;
    totals.bases_unsafe += record.outcome == Outcome::kBaseUnsafe;
    totals.next = record.number;
    return;
  }
  if (record.outcome == Outcome::kNone && !crashed) return;
  Counts& c = totals.classes[classes[record.mutant_class].name];
  const bool accepted =
      record.outcome == Outcome::kAcceptedSafe || record.outcome == Outcome::kAcceptedUnsafe;
  const bool unsafe = record.outcome == Outcome::kRefusedUnsafe || record.outcome == Outcome::kAcceptedUnsafe;
  ++c.mutants;
  c.crashed += crashed;
  if (crashed) return;
  c.accepted += accepted;
  c.unsafe += unsafe;
  c.equivalent += !unsafe;
  c.unsafe_accepted += accepted && unsafe;
  c.conservative += !accepted && !unsafe;
}

}  // namespace

void run_campaign(const Plan& plan, Totals& totals, const std::function<void(const Totals&)>& each) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const double before = totals.seconds;
  const std::vector<MutantClass> classes = all_classes();
  const uint64_t end = plan.first + plan.count;
  bool out_of_time = false;
  for (uint64_t next = plan.first; next < end && !out_of_time;) {
    int ends[2];
    if (pipe(ends) != 0) return;
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      Maker(plan, ends[1]).run(next, end);
      _exit(0);
    }
    close(ends[1]);
    Record record, begun;
    while (!out_of_time && read(ends[0], &record, sizeof record) == static_cast<ssize_t>(sizeof record)) {
      if (record.begins) {
        begun = record;
        continue;
      }
      begun.begins = 0;
      count(record, false, classes, totals);
      totals.seconds = before + seconds_since(begin);
      out_of_time = plan.seconds > 0 && totals.seconds - before > plan.seconds;
      each(totals);
    }
    close(ends[0]);
    if (out_of_time) kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (!out_of_time && begun.begins) {
      count(begun, true, classes, totals);
      const bool base = begun.mutant_class == UINT32_MAX;
      fmt::print(stderr, "mutant {} of seed {} ({}) ends the process: status {}\n", begun.number, plan.seed,
                 base ? "a base" : classes[begun.mutant_class].name, status);
      save_crash_apart(plan, begun);
      next = base ? (begun.number / plan.of_base + 1) * plan.of_base : begun.number + 1;
    } else if (!out_of_time) {
      totals.next = next = end;
    }
  }
}

}  // namespace mkc::attack
