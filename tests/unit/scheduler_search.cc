#include <doctest/doctest.h>

#include <map>

#include "ir/values.h"
#include "scheduler/place.h"
#include "scheduler/prove.h"
#include "scheduler/search.h"
#include "scheduler/simulate.h"
#include "tests/unit/scheduler_programs.h"

namespace mkc {
namespace {

using test::model_program;

// Of one to four requests, whose tokens share one context.
TaskProgram program() {
  TaskProgram p = model_program({.context = 256});
  p.symbols.add({"B", {1, 4}, {}});
  return p;
}

Machine machine(double ticket_ns, double notify_ns) {
  Machine m = load_machine("emulator").value();
  m.ticket_ns = ticket_ns;
  m.notify_ns = notify_ns;
  return m;
}

struct Found {
  Schedule schedule;
  SearchReport report;
};

Found search(const Machine& m, Scheduler scheduler, SearchBudget budget,
             const std::vector<PlacementRule>& rules = {}) {
  PlaceOptions options{3};
  options.scheduler = scheduler;
  options.rules = rules;
  options.search = budget;
  Found found;
  found.schedule = place(program(), m, options, &found.report).value();
  return found;
}

Schedule unsearched(const Machine& m, Scheduler scheduler) {
  PlaceOptions options{3};
  options.scheduler = scheduler;
  return place(program(), m, options).value();
}

std::map<std::string, PlacementKind> kinds_of(const Schedule& s) {
  std::map<std::string, PlacementKind> kinds;
  for (GridId g : s.program.grids.ids()) kinds[s.program.grids[g].name] = s.placements[g.index].kind;
  return kinds;
}

constexpr SearchBudget kAll{1e9};

TEST_CASE("where tickets cost most of all, the search leaves none in the layers") {
  const Machine m = machine(1e6, 500);
  const Found found = search(m, Scheduler::kDynamic, kAll);
  for (const auto& [name, kind] : kinds_of(unsearched(m, Scheduler::kDynamic)))
    CHECK((draws_tickets(kind) || name.ends_with(".combine")));
  for (const auto& [name, kind] : kinds_of(found.schedule)) {
    CAPTURE(name);
    CHECK(draws_tickets(kind) == (name.find('.') == std::string::npos));
  }
  CHECK(found.report.complete);
  CHECK(found.report.chosen.size() == 7);  // q, k, v, attend, o, gate_up, down; combine was inline
  CHECK(found.schedule.placements[test::find_grid(found.schedule.program, "l1.down").index].reason ==
        "found by -O3; simulated steps with all that it found to without: " + found.report.figures);
}

TEST_CASE("what the search finds takes no longer than without it, by steps simulated anew") {
  for (const auto& [ticket_ns, notify_ns] :
       {std::pair{1.0, 1.0}, {1.0, 1e4}, {300.0, 600.0}, {1e4, 1.0}, {1e4, 1e4}})
    for (Scheduler scheduler : kSchedulers) {
      CAPTURE(ticket_ns);
      CAPTURE(notify_ns);
      CAPTURE(scheduler_name(scheduler));
      const Machine m = machine(ticket_ns, notify_ns);
      const Schedule before = unsearched(m, scheduler);
      const Found found = search(m, scheduler, kAll);
      CHECK(prove(found.schedule).ok());
      double sum = 0;
      for (int64_t requests : {1, 2, 4}) {
        const std::vector<StepRequest> equal(static_cast<size_t>(requests), {1, 256});
        const std::vector<int64_t> symbols = step_values(before.program.symbols, equal);
        const double ratio =
            simulate(found.schedule, m, symbols).value().ns / simulate(before, m, symbols).value().ns;
        CHECK(ratio <= 1.005);
        sum += ratio;
      }
      CHECK(sum <= 3 * 1.0001);
      CHECK(found.report.chosen.empty() == (kinds_of(before) == kinds_of(found.schedule)));
      CHECK(found.report.chosen.empty() == found.report.figures.empty());
    }
}

TEST_CASE("a search of as many trials finds the same, and none changes nothing") {
  const Machine m = machine(1e6, 500);
  const Found whole = search(m, Scheduler::kDynamic, kAll);
  for (uint32_t trials : {0u, 1u, 5u, whole.report.trials}) {
    const Found once = search(m, Scheduler::kDynamic, {1e9, trials}),
                again = search(m, Scheduler::kDynamic, {1e9, trials});
    CHECK(once.schedule.placements == again.schedule.placements);
    CHECK(once.report.trials == trials);
    CHECK(once.report.complete == (trials == whole.report.trials));
    if (trials == 0) CHECK(kinds_of(once.schedule) == kinds_of(unsearched(m, Scheduler::kDynamic)));
    if (trials == whole.report.trials) CHECK(kinds_of(once.schedule) == kinds_of(whole.schedule));
  }
  CHECK(search(m, Scheduler::kDynamic, {1e-9}).report.trials == 0);
}

TEST_CASE("what is asked for is not searched") {
  const Found found =
      search(machine(1e6, 500), Scheduler::kDynamic, kAll, {{"l1.q", PlacementKind::kQueue, {}}});
  const auto kinds = kinds_of(found.schedule);
  CHECK(kinds.at("l0.q") == PlacementKind::kQueue);
  CHECK(kinds.at("l1.q") == PlacementKind::kQueue);
  CHECK_FALSE(draws_tickets(kinds.at("l1.o")));
}

// Steps of up to 64 tokens, which products may take by warpgroups from 65 on.
TaskProgram wide_program() {
  TaskProgram p = model_program({.hidden = 512, .feed_forward = 2048, .context = 256, .tokens = 64});
  for (TaskGrid& grid : p.grids)
    if (grid.body == BodyKind::kProduct) set_attr(grid.attrs, "wide_from", int64_t{65});
  Symbol rows{"q_len", {1, 64}, {}};
  rows.length = symbol(p.symbols.add({"B", {1, 4}, {}}));
  p.symbols.add(rows);
  return p;
}

TEST_CASE("the search has warpgroups multiply from fewer tokens on where that is shorter and allowed") {
  Machine m = load_machine("h100").value();
  const auto found = [&](double bytes_per_ns, bool allowed) {
    m.wgmma_bytes_per_ns = bytes_per_ns;
    PlaceOptions options{3};
    options.search = SearchBudget{1e9, 0, allowed};
    SearchReport report;
    const Schedule s = place(wide_program(), m, options, &report).value();
    const int64_t from =
        int_attr(s.program.grids[test::find_grid(s.program, "l1.down")].attrs, "wide_from", 0);
    CHECK(from == (report.wide.from == 0 ? 65 : report.wide.from));
    CHECK(report.wide.figures.empty() == (report.wide.from == 0));
    return report.wide.from;
  };
  CHECK(found(1e3, true) < 65);
  CHECK(found(1e3, true) > 0);
  CHECK(found(1e3, false) == 0);
  CHECK(found(1e-3, true) == 0);
}

TEST_CASE("a report of a search says what was chosen") {
  CHECK(to_string(SearchReport{0, true, {}, "", {17, "16 mixed 0.800"}}) ==
        "-O3: 0 trials, no other change gains more; wide_from: 17, simulated steps to those before: 16 mixed "
        "0.800");
  CHECK(to_string(SearchReport{1, false, {}, ""}) ==
        "-O3: 1 trial, the budget is spent; nothing is better than without it");
  CHECK(to_string(SearchReport{12,
                               true,
                               {{"l*.q", PlacementKind::kQueue, {}}, {"l*.o", PlacementKind::kRange, {}}},
                               "1 request 0.900"}) ==
        "-O3: 12 trials, no other change gains more; placement: {\"l*.q\": queue, \"l*.o\": range}; "
        "simulated steps "
        "to those without it: 1 request 0.900");
}

}  // namespace
}  // namespace mkc
