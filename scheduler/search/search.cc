#include "scheduler/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "scheduler/search/beside.h"
#include "scheduler/search/evaluate.h"
#include "scheduler/tiling/grid_pattern.h"

namespace mkc {
namespace {

// Gains that a candidate must bring, as parts of the mean of the steps' times.
constexpr double kAutoGain = 0.005, kGain = 0.001;
// The whole model is evaluated this many times at most: with all accepted candidates, then each time without
// the newest one.
constexpr size_t kWholeTrials = 4;
// kReserved is the number of whole-model evaluations that fit in the time left when the search ends.
constexpr double kReserved = 2;

class Search {
 public:
  // Requires a scheduler other than kAuto.
  Search(const TaskProgram& program, const Machine& machine, const SearchOptions& options)
      : program_(program),
        machine_(machine),
        options_(options),
        layers_(first_layers(program), machine, options) {}

  Result<SearchReport> run(bool is_auto) {
    Result<Evaluation> base = layers_.begin({});
    if (!base.ok()) return base.error();
    path_.push_back(std::move(base.value()));
    Status status = is_auto ? choose() : Status();
    report_.found = path_.back().settings;
    if (status.ok() && options_.budget) status = improve();
    if (!status.ok()) return status.error();
    return std::move(report_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Evaluates the candidates of kAuto.
  Status choose() {
    const Asked& asked = options_.asked;
    Status status = try_each(fp8_candidates(program_, asked), kAutoGain);
    if (status.ok())
      status = try_each(split_candidates(program_, asked, {2, 4}, options_.costs.workers), kAutoGain);
    if (status.ok()) status = try_each(narrow_candidates(program_, asked, options_.costs.workers), kAutoGain);
    if (status.ok())
      status = try_each(ticket_candidates(program_, path_.back().schedule.program, asked), kAutoGain);
    return status;
  }

  // Evaluates the candidates of -O3 until a round gains nothing.
  Status improve() {
    begin_ = Clock::now();
    base_ = path_.size() - 1;
    mean_ = 1;
    // A smaller gain is enough now, so all other settings may be evaluated again.
    known_ = {path_.back().settings};
    const Evaluator whole(program_, machine_, options_);
    Result<Evaluation> base = whole.begin(path_[base_].settings);
    if (!base.ok()) return base.error();
    if (Status status = whole.simulate_all(base.value()); !status.ok()) return status;
    whole_seconds_ = spent_seconds();
    for (size_t before = 0; path_.size() != before && !is_over_;) {
      before = path_.size();
      if (Status status = try_each(all_candidates(), kGain); !status.ok()) return status;
    }
    report_.complete = !is_over_;
    return check_whole(whole, base.value());
  }

  std::vector<Candidate> all_candidates() const {
    std::vector<Candidate> candidates;
    if (machine_.warpgroups) candidates = wgmma_candidates(program_, options_.asked);
    for (const std::vector<Candidate>& more :
         {ring_candidates(machine_.ring_stages, options_.asked),
          split_candidates(program_, options_.asked, {1, 2, 4, 8}),
          placement_candidates(program_, path_.back().schedule.program, options_.asked)})
      candidates.insert(candidates.end(), more.begin(), more.end());
    return candidates;
  }

  // Attempt is a candidate over the best settings, as far as its evaluation got.
  struct Attempt {
    std::optional<Evaluation> evaluation;  // nothing: the settings are impossible or were evaluated before
    Result<std::vector<double>> ratios = std::vector<double>();
  };

  Attempt attempt(const Candidate& candidate, const std::vector<Settings>& known) {
    Result<Evaluation> begun = layers_.begin(with(path_.back().settings, candidate.settings), &path_.back());
    if (!begun.ok() || std::find(known.begin(), known.end(), begun.value().settings) != known.end())
      return {};
    Attempt made{std::move(begun.value())};
    made.ratios = layers_.ratios(*made.evaluation, path_[base_]);
    return made;
  }

  // Evaluates each candidate over the best settings and adds it to them if it wins. Skips candidates that
  // were evaluated before or are impossible. Each candidate is evaluated beside the next one, which assumes
  // that the first does not win. The parallel evaluation starts once the base has all its steps, so that no
  // evaluation changes the base.
  Status try_each(const std::vector<Candidate>& candidates, double gain) {
    std::future<Attempt> next;
    for (size_t i = 0; i < candidates.size(); ++i) {
      std::future<Attempt> ahead = std::exchange(next, {});
      if (i + 1 < candidates.size() && layers_.has_all_steps(path_[base_]))
        next = start_beside(
            [this, &candidate = candidates[i + 1], known = known_] { return attempt(candidate, known); });
      Attempt made = ahead.valid() ? ahead.get() : attempt(candidates[i], known_);
      if (!made.evaluation ||
          std::find(known_.begin(), known_.end(), made.evaluation->settings) != known_.end())
        continue;
      if (begin_ && is_over()) return {};
      known_.push_back(made.evaluation->settings);
      if (!made.ratios.ok()) return made.ratios.error();
      note(candidates[i], layers_.figures(*made.evaluation, path_.back()));
      if (!layers_.wins(made.ratios.value(), mean_ - gain)) continue;
      if (next.valid()) next.wait();  // the next evaluation reads path_
      next = {};
      mean_ = mean(made.ratios.value());
      path_.push_back(std::move(*made.evaluation));
    }
    return {};
  }

  double spent_seconds() const { return std::chrono::duration<double>(Clock::now() - *begin_).count(); }

  bool is_over() {
    const SearchBudget& budget = *options_.budget;
    is_over_ = report_.evaluations == budget.evaluations ||
               spent_seconds() + kReserved * whole_seconds_ >= budget.seconds;
    report_.evaluations += !is_over_;
    return is_over_;
  }

  void note(const Candidate& candidate, std::string figures) {
    std::erase_if(report_.tried, [&](const Tried& tried) { return tried.candidate == candidate; });
    report_.tried.push_back({candidate, std::move(figures)});
  }

  // Reverts the newest candidate while steps of the whole model take too long with it, or less time without
  // it. Stops when the time is over.
  Status check_whole(const Evaluator& whole, Evaluation& base) {
    double best = 1;
    for (size_t i = path_.size() - 1; i > base_ && path_.size() - i <= kWholeTrials; --i) {
      if (i + 1 < path_.size() && spent_seconds() + whole_seconds_ >= options_.budget->seconds) return {};
      Result<Evaluation> evaluation = whole.begin(path_[i].settings);
      if (!evaluation.ok()) continue;  // a later layer cannot have these settings
      if (Status status = whole.simulate_all(evaluation.value()); !status.ok()) return status;
      const Result<std::vector<double>> ratios = whole.ratios(evaluation.value(), base);
      if (!ratios.ok()) return ratios.error();
      if (whole.wins(ratios.value(), best)) {
        best = mean(ratios.value());
        report_.found = path_[i].settings;
        report_.figures = whole.figures(evaluation.value(), base);
      } else if (!report_.figures.empty()) {
        return {};
      }
    }
    return {};
  }

  const TaskProgram& program_;
  const Machine& machine_;
  const SearchOptions& options_;
  const Evaluator layers_;
  std::vector<Evaluation> path_;  // each with one candidate more than the one before
  // Index in path_ of the evaluation whose steps no other may exceed by more than the tolerance.
  size_t base_ = 0;
  double mean_ = 1;                          // mean of the last of path_, relative to the base
  std::vector<Settings> known_{Settings{}};  // settings that were evaluated
  std::optional<Clock::time_point> begin_;   // start of -O3
  double whole_seconds_ = 0;                 // time of one evaluation of the whole model
  bool is_over_ = false;
  SearchReport report_;
};

}  // namespace

Result<SearchReport> search(const TaskProgram& program, const Machine& machine,
                            const SearchOptions& options) {
  const bool is_auto = options.scheduler == Scheduler::kAuto;
  if (!is_auto && !options.budget) return SearchReport{};
  SearchOptions from = options;
  if (is_auto) from.scheduler = Scheduler::kStatic;
  return Search(program, machine, from).run(is_auto);
}

void add_reasons(const SearchReport& report, Schedule& schedule) {
  for (GridId g : schedule.program.grids.ids()) {
    const std::string pattern = layer_pattern(schedule.program.grids[g]);
    std::string& reason = schedule.placements[g.index].reason;
    if (report.found.placements.contains(pattern)) reason = "found by simulated steps";
    if (const auto split = report.found.splits.find(pattern); split != report.found.splits.end())
      reason += fmt::format("; split into {} parts", split->second);
    const TaskGrid& grid = schedule.program.grids[g];
    if (const uint32_t from = (reads_codes(grid) ? wgmma_from : fp8_from)(schedule.program, grid); from != 0)
      reason += fmt::format("; activations fp8 from {} tokens on", from);
    const char* before = "; simulated steps to those before ";
    for (const Tried& tried : report.tried) {
      const Settings& s = tried.candidate.settings;
      const bool fp8 = s.fp8_from != 0 && multiplies_e4m3(schedule.program, schedule.program.grids[g]);
      if (!s.splits.contains(pattern) && !s.placements.contains(pattern) && !fp8) continue;
      reason += fmt::format("{}{}: {}", before, tried.candidate.how, tried.figures);
      before = "; ";
    }
  }
}

std::string to_string(const SearchReport& report) {
  return fmt::format("-O3: {} evaluation{}, {}; {}", report.evaluations, report.evaluations == 1 ? "" : "s",
                     report.complete ? "no other candidate gains more" : "the budget is spent",
                     report.figures.empty() ? "nothing is better than without it"
                                            : "simulated steps to those without it: " + report.figures);
}

}  // namespace mkc
