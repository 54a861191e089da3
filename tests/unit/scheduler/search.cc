#include "scheduler/search/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "ir/values.h"
#include "scheduler/place/place.h"
#include "scheduler/simulate/simulate.h"
#include "scheduler/tiling/fuse.h"
#include "scheduler/tiling/split.h"
#include "tests/unit/scheduler/programs.h"

namespace mkc {
namespace {

using test::model_program;

// Returns a program for one to four requests, whose tokens share one context.
TaskProgram program() {
  TaskProgram p = test::without_events(model_program({.context = 256}));
  p.symbols.add({"B", {1, 4}, {}});
  return p;
}

Machine machine(double ticket_ns, double notify_ns) {
  Machine m = load_machine("emulator").value();
  m.ticket_ns = ticket_ns;
  m.notify_ns = notify_ns;
  return m;
}

const Asked kNoSplits{false, {{"l*", 1, {}}}, {}};

SearchOptions options_for(const Machine& m, Scheduler scheduler, std::optional<SearchBudget> budget,
                          const Asked& asked = {}) {
  return {{m.task_ns, m.notify_ns, 3}, scheduler, asked, budget};
}

struct Found {
  Schedule schedule;
  SearchReport report;
};

// Searches, and returns the schedule of a user who asks for the settings found.
Found search_for(const TaskProgram& p, const Machine& m, const SearchOptions& options) {
  Found found;
  found.report = search(p, m, options).value();
  std::vector<SplitRule> splits = split_rules(found.report.found);
  splits.insert(splits.end(), options.asked.splits.begin(), options.asked.splits.end());
  PlaceOptions how{3};
  how.scheduler = options.scheduler == Scheduler::kDynamic ? Scheduler::kDynamic : Scheduler::kStatic;
  how.rules = placement_rules(found.report.found);
  how.rules.insert(how.rules.end(), options.asked.placements.begin(), options.asked.placements.end());
  TaskProgram asked = p;
  if (found.report.found.wgmma_from != 0) set_wgmma_from(asked, found.report.found.wgmma_from);
  asked = derive_events(split_as_asked(std::move(asked), splits).value(), options.costs).value();
  how.ring = std::max(found.report.found.ring, options.asked.ring);
  found.schedule = place(std::move(asked), m, how).value();
  add_reasons(found.report, found.schedule);
  return found;
}

Found search_for(const Machine& m, Scheduler scheduler, std::optional<SearchBudget> budget,
                 const Asked& asked = {}) {
  return search_for(program(), m, options_for(m, scheduler, budget, asked));
}

std::map<std::string, PlacementKind> kinds_of(const Schedule& s) {
  std::map<std::string, PlacementKind> kinds;
  for (GridId g : s.program.grids.ids()) kinds[s.program.grids[g].name] = s.placements[g.index].kind;
  return kinds;
}

const std::string& reason_of(const Schedule& s, const char* grid) {
  return s.placements[test::find_grid(s.program, grid).index].reason;
}

constexpr SearchBudget kAll{1e9};

TEST_CASE("where tickets cost most of all, -O3 leaves none in the layers") {
  const Machine m = machine(1e6, 500);
  for (const auto& [name, kind] : kinds_of(search_for(m, Scheduler::kDynamic, {}).schedule))
    CHECK((claims_by_ticket(kind) || name.ends_with(".combine")));
  const Found found = search_for(m, Scheduler::kDynamic, kAll, kNoSplits);
  for (const auto& [name, kind] : kinds_of(found.schedule)) {
    CAPTURE(name);
    CHECK(claims_by_ticket(kind) == (name.find('.') == std::string::npos));
  }
  CHECK(found.report.complete);
  CHECK(found.report.found.placements.size() == 7);  // all grids of a layer but combine, which was inline
  CHECK(reason_of(found.schedule, "l1.down")
            .starts_with("found by simulated steps; simulated steps to those "
                         "before by table: 1 request 0."));
}

TEST_CASE("what the search finds takes no longer than without it, by steps simulated anew") {
  for (const auto& [ticket_ns, notify_ns] :
       {std::pair{1.0, 1.0}, {1.0, 1e4}, {300.0, 600.0}, {1e4, 1.0}, {1e4, 1e4}})
    for (Scheduler scheduler : kSchedulers) {
      CAPTURE(ticket_ns);
      CAPTURE(notify_ns);
      CAPTURE(scheduler_name(scheduler));
      const Machine m = machine(ticket_ns, notify_ns);
      const Schedule before = search_for(m, scheduler, {}).schedule;
      const Found found = search_for(m, scheduler, kAll);
      CHECK(test::refusal(found.schedule) == "");
      double sum = 0;
      for (int64_t requests : {1, 2, 4}) {
        const std::vector<StepRequest> equal(static_cast<size_t>(requests), {1, 256});
        const std::vector<int64_t> symbols = step_values(before.program.symbols, equal);
        const double ratio =
            simulate(found.schedule, m, symbols).value().ns / simulate(before, m, symbols).value().ns;
        CHECK(ratio <= 1.01);
        sum += ratio;
      }
      CHECK(sum <= 3 * 1.0001);
      CHECK(found.report.figures.empty() == (kinds_of(before) == kinds_of(found.schedule)));
    }
}

TEST_CASE("what was found last is left out where some later layer cannot have it") {
  TaskProgram p = test::without_events(model_program({.layers = 4, .context = 256}));
  p.symbols.add({"B", {1, 4}, {}});
  p.grids[test::find_grid(p, "l3.down")].coords[0].extent = symbol(find_symbol(p.symbols, "T"));
  const Machine m = machine(1e6, 500);
  const SearchReport report = search(p, m, options_for(m, Scheduler::kDynamic, kAll, kNoSplits)).value();
  CHECK(report.found.placements.at("l*.gate_up") == PlacementKind::kTable);
  CHECK(std::any_of(report.tried.begin(), report.tried.end(), [](const Tried& tried) {
    return tried.candidate.settings.placements.contains("l*.down");
  }));
  CHECK(report.found.placements.size() == 6);
  CHECK_FALSE(report.figures.empty());
}

TEST_CASE("a search of as many evaluations finds the same, and of none no more than auto") {
  const Machine m = machine(1e6, 500);
  const Found whole = search_for(m, Scheduler::kDynamic, kAll);
  for (uint32_t evaluations : {0u, 1u, 5u, whole.report.evaluations}) {
    const SearchBudget budget{1e9, evaluations};
    const Found once = search_for(m, Scheduler::kDynamic, budget),
                again = search_for(m, Scheduler::kDynamic, budget);
    CHECK(once.report.found == again.report.found);
    CHECK(once.report.evaluations == evaluations);
    CHECK(once.report.complete == (evaluations == whole.report.evaluations));
    if (evaluations == 0) CHECK(once.report.found == Settings{});
    if (evaluations == whole.report.evaluations) CHECK(once.report.found == whole.report.found);
  }
  CHECK(search_for(m, Scheduler::kDynamic, SearchBudget{1e-9}).report.evaluations == 0);
}

TEST_CASE("auto tries tickets up to the first step that takes longer, and counts no evaluations") {
  for (const char* grid : {"l0.attend", "l1.q"}) {
    Machine m = machine(1e6, 1e6);
    m.barrier_ns = 1e6;
    const Found found = search_for(m, Scheduler::kAuto, {});
    const std::string& reason = reason_of(found.schedule, grid);
    CHECK(reason.find("; simulated steps to those before with tickets: 1 request ") != std::string::npos);
    CHECK(reason.find("requests") == std::string::npos);
    CHECK(found.report.found.placements.empty());
    CHECK(found.report.evaluations == 0);
  }
}

TEST_CASE("what gained auto too little is tried again by -O3") {
  const Asked all_but_attend{false, {{"l*", 1, {}}}, {{"l?.[!a]*", PlacementKind::kRange, {}}}};
  const Found found = search_for(machine(1e6, 500), Scheduler::kAuto, kAll, all_but_attend);
  const auto tries = [&](const char* how) {
    return std::any_of(found.report.tried.begin(), found.report.tried.end(), [&](const Tried& tried) {
      return tried.candidate == Candidate{how, {.placements = {{"l*.attend", PlacementKind::kReady}}}};
    });
  };
  CHECK(tries("with tickets"));
  CHECK(tries("by ready"));
}

TEST_CASE("what is asked for is not searched") {
  const Asked asked{
      false, {}, {{"l1.q", PlacementKind::kQueue, {}}, {"l5.k_reduce", PlacementKind::kTable, {}}}};
  for (const char* name : {"l*.q", "l*.k"}) {
    SearchReport report =
        search(program(), machine(1e6, 500), options_for(machine(1e6, 500), Scheduler::kDynamic, kAll, asked))
            .value();
    CHECK(report.found.placements.contains(name) == (std::string(name) == "l*.k"));
    for (const Tried& tried : report.tried)
      CHECK((!tried.candidate.settings.placements.contains("l*.q") || name != std::string("l*.q")));
  }
}

// Returns a program for steps of up to 64 tokens. The products use warpgroups from 65 tokens on.
TaskProgram wide_program() {
  TaskProgram p = test::without_events(
      model_program({.hidden = 512, .feed_forward = 2048, .context = 256, .tokens = 64}));
  set_wgmma_from(p, 65);
  Symbol rows{"q_len", {1, 64}, {}};
  rows.length = symbol(p.symbols.add({"B", {1, 4}, {}}));
  p.symbols.add(rows);
  return p;
}

TEST_CASE("the search has warpgroups multiply from fewer tokens on where that is shorter and allowed") {
  Machine m = load_machine("h100").value();
  const auto found = [&](double bytes_per_ns, bool asked) {
    m.wgmma_bytes_per_ns = bytes_per_ns;
    const Found f =
        search_for(wide_program(), m, options_for(m, Scheduler::kStatic, SearchBudget{1e9, 3}, {asked}));
    const uint32_t from = f.report.found.wgmma_from;
    const TaskGrid& grid = f.schedule.program.grids[test::find_grid(f.schedule.program, "l1.down")];
    CHECK(int_attr(grid.attrs, "wgmma_from", 0) == (from == 0 ? 65 : from));
    return from;
  };
  CHECK(found(1e3, false) < 65);
  CHECK(found(1e3, false) > 0);
  CHECK(found(1e3, true) == 0);
  CHECK(found(1e-3, false) == 0);
}

TEST_CASE("the search has activations be 8-bit floats where that is shorter and allowed") {
  Machine m = load_machine("rtx4090").value();
  TaskProgram program = wide_program();
  for (const TaskGrid& grid : program.grids)
    if (grid.body == BodyKind::kProduct)
      program.tensors[find_operand(grid, "weight")->tensor].dtype = DType::e4m3;
  const auto found = [&](double mma_fp8_per_ns, bool allowed) {
    m.mma_fp8_per_ns = mma_fp8_per_ns;
    SearchOptions options = options_for(m, Scheduler::kAuto, std::nullopt);
    options.asked.may_use_fp8 = allowed;
    const Found f = search_for(program, m, options);
    CHECK(f.report.found.wgmma_from == 0);  // this machine has no warpgroups
    return f.report.found.fp8_from;
  };
  CHECK(found(1e6, true) == kMinFp8From);
  CHECK(found(1e6, false) == 0);
  CHECK(found(1, true) == 0);
}

TEST_CASE("the search tries shorter rings, unless one is asked for, and keeps none that takes longer") {
  const Machine m = load_machine("h100").value();
  const auto rings = [&](uint32_t asked, uint32_t stages) {
    const Found f = search_for(
        wide_program(), m, options_for(m, Scheduler::kStatic, SearchBudget{1e9, 6}, {true, {}, {}, asked}));
    CHECK(f.schedule.ring.stages == stages);
    CHECK(f.report.found.ring == 0);
    std::vector<uint32_t> tried;
    for (const Tried& t : f.report.tried)
      if (t.candidate.settings.ring != 0) tried.push_back(t.candidate.settings.ring);
    return tried;
  };
  CHECK(rings(0, 12) == std::vector<uint32_t>{10, 8});
  CHECK(rings(7, 7).empty());
}

TEST_CASE("a report of a search says what it was good for") {
  SearchReport report;
  report.evaluations = 1;
  CHECK(to_string(report) == "-O3: 1 evaluation, the budget is spent; nothing is better than without it");
  report.evaluations = 12;
  report.complete = true;
  report.figures = "1 request 0.900";
  CHECK(to_string(report) ==
        "-O3: 12 evaluations, no other candidate gains more; simulated steps to those without it: 1 request "
        "0.900");
}

}  // namespace
}  // namespace mkc
