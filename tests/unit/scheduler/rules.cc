// These tests check single rules of the proof and of shared memory, on programs of two or three grids.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "scheduler/place/workspace.h"
#include "scheduler/proof/accesses.h"
#include "scheduler/proof/memory.h"
#include "tests/unit/scheduler/programs.h"

namespace mkc {
namespace {

struct Rules {
  Schedule s{};
  TaskProgram& p = s.program;

  GridId grid(const char* name, std::vector<Coord> coords, BodyKind body = BodyKind::kProduct) {
    TaskGrid g;
    g.name = name;
    g.body = body;
    g.coords = std::move(coords);
    return p.grids.add(g);
  }
  TensorId tensor(const char* name, TensorKind kind, Slot slot, std::vector<Expr> shape = {16}) {
    Tensor t;
    t.name = name;
    t.kind = kind;
    t.shape = std::move(shape);
    s.slots.push_back(slot);
    return p.tensors.add(t);
  }
  EventId event(const char* name, std::vector<Expr> dims, Expr expect) {
    Event e;
    e.name = name;
    e.dims = std::move(dims);
    e.expect = std::move(expect);
    return p.events.add(e);
  }
  void write(GridId g, TensorId t, const char* role = "out") {
    p.grids[g].writes.push_back({role, t, {{0, 16}}, false});
  }
  void notify(GridId g, EventId e, Region cells) { p.grids[g].notifies.push_back({e, std::move(cells)}); }
  void wait(GridId g, EventId e, std::vector<Expr> cell) { p.grids[g].waits.push_back({e, std::move(cell)}); }
  Expr symbol_between(const char* name, int64_t lo, int64_t hi) {
    return symbol(p.symbols.add({name, {lo, hi}, {}}));
  }

  // Returns the grids in program order. Each grid comes after the grids that `after` lists for it.
  proof::Order order(const std::vector<std::vector<uint32_t>>& after) const {
    proof::Order out;
    for (uint32_t g = 0; g < p.grids.size(); ++g) {
      out.sorted.push_back(g);
      out.before.emplace_back(p.grids.size());
      for (const uint32_t earlier : after[g]) out.before[g].set(earlier);
    }
    out.reaches = out.before;
    return out;
  }
};

std::string message(const Status& status) {
  return status.ok() ? "" : status.error().message;
}

TEST_CASE("memory that a grid without tasks takes is still that of who had it before") {
  // %b takes the memory of %a, and %c that of %b. Only the tasks of %middle lead from %first to %last.
  for (const int64_t min : {0, 1}) {
    CAPTURE(min);
    Rules r;
    const Expr tasks = r.symbol_between("n", min, 4);
    const GridId first = r.grid("first", {{"i", 2}}), middle = r.grid("middle", {{"i", tasks}}),
                 last = r.grid("last", {{"i", 2}});
    r.write(first, r.tensor("a", TensorKind::kActivation, {0, 64}));
    r.write(middle, r.tensor("b", TensorKind::kActivation, {0, 64}));
    r.write(last, r.tensor("c", TensorKind::kActivation, {0, 64}));
    proof::Context c(r.s);
    const std::string found = message(proof::check_sharing(c, r.order({{}, {0}, {1}})));
    CHECK(found == (min == 1
                        ? ""
                        : "error: unproved: %a and %c share memory: %first is done with the first before "
                          "%last writes the second"));
  }
}

TEST_CASE("an attention that stands before what appends to its cache is refused, whatever their order") {
  Rules r;
  const GridId attend = r.grid("attend", {{"g", 2}}, BodyKind::kAttend),
               append = r.grid("append", {{"g", 2}}, BodyKind::kAppend);
  const TensorId cache = r.tensor("k", TensorKind::kCache, {});
  r.write(attend, cache, "k_cache");
  r.write(append, cache, "k_cache");
  proof::Context c(r.s);
  CHECK(message(proof::check_caches(c, {}, r.order({{1}, {}}))) ==
        "error: %attend stands before %append, which appends to the cache %k");
}

TEST_CASE("intervals are disjoint that touch or are empty, and no others") {
  struct Case {
    std::vector<proof::Interval> intervals;
    bool disjoint;
  };
  for (const Case& x :
       {Case{{{0, 4}, {4, 8}}, true}, Case{{{4, 8}, {0, 4}}, true}, Case{{{0, 5}, {4, 8}}, false},
        Case{{{4, 8}, {0, 5}}, false}, Case{{{0, 4}, {2, 2}, {4, 8}}, true}, Case{{{0, 8}, {0, 8}}, false}}) {
    proof::Along along{.kind = proof::Along::Kind::kTable, .coord = 0, .intervals = x.intervals};
    CHECK(proof::disjoint(along) == x.disjoint);
    along.coord = proof::Along::kNone;  // all tasks have one interval
    CHECK_FALSE(proof::disjoint(along));
  }
}

TEST_CASE("what tasks are known to notify: every cell, some cell, and every cell by some task") {
  struct Case {
    int64_t tasks;
    Range cells;  // notified cells, of two
    Expr expect;
    bool every, some, heard;
  };
  const Expr i = coord(0);
  for (const Case& x : {Case{2, {i, 1}, 1, false, true, true}, Case{3, {0, 2}, 3, true, true, true},
                        Case{3, {i, max(0, min(1, 2 - i))}, 1, false, false, true},
                        Case{3, {0, 1}, max(0, 3 - 3 * i), false, true, false}}) {
    CAPTURE(x.tasks);
    Rules r;
    const GridId g = r.grid("g", {{"i", x.tasks}});
    r.notify(g, r.event("e", {2}, x.expect), {x.cells});
    proof::Context c(r.s);
    const Result<proof::Sources> sources = proof::check_counts(c);
    REQUIRE_MESSAGE(sources.ok(), sources.error().message);
    const proof::Source& found = sources.value()[0][0];
    CHECK(found.every_cell == x.every);
    CHECK(found.some_cell == x.some);
    CHECK(found.each_heard == x.heard);
  }
}

TEST_CASE("a step may have those values that no relation of known symbols forbids") {
  Rules r;
  for (const char* name : {"T", "B", "blocks", "R"}) r.symbol_between(name, 1, 4);
  r.p.symbols.items[2].cut = true;
  Symbol active{"active_experts", {2, 8}, {}};  // each token has 2 choices
  active.routed = true;
  r.p.symbols.add(active);
  enum { T, B, kBlocks, R, kActive };
  using Values = std::vector<int64_t>;
  struct Relation {
    std::vector<size_t> between;
    std::function<bool(const Values&)> holds;
  };
  const Relation relations[] = {{{B, T}, [](const Values& v) { return v[B] <= v[T]; }},
                                {{B, kBlocks}, [](const Values& v) { return v[B] <= v[kBlocks]; }},
                                {{kBlocks, T}, [](const Values& v) { return v[kBlocks] <= v[T]; }},
                                {{R, T}, [](const Values& v) { return v[R] <= v[T]; }},
                                {{B, R}, [](const Values& v) { return v[B] <= v[R]; }},
                                {{R, T, B}, [](const Values& v) { return v[R] == v[T] || v[R] == v[B]; }},
                                {{kActive, T}, [](const Values& v) { return v[kActive] <= 2 * v[T]; }}};
  for (uint32_t mask = 0; mask < 32; ++mask) {
    std::vector<bool> known;
    for (uint32_t i = 0; i < 5; ++i) known.push_back(mask >> i & 1);
    for (int64_t number = 0; number < 3 * 3 * 3 * 3 * 3; ++number) {
      Values v;
      for (int64_t i = 0, rest = number; i < 5; ++i, rest /= 3)
        v.push_back(1 + rest % 3 + (i == kActive ? 2 : 0));
      const bool expected = std::all_of(std::begin(relations), std::end(relations), [&](const Relation& x) {
        return !std::all_of(x.between.begin(), x.between.end(), [&](size_t i) { return known[i]; }) ||
               x.holds(v);
      });
      REQUIRE(proof::may_be(r.p.symbols, step_symbols(r.p.symbols), v, known) == expected);
    }
  }
}

// Returns whether %first is before %last. Each task of %first notifies a cell, and %last waits for all of
// %middle.
bool is_before_last(std::vector<Expr> cells, std::vector<Coord> waiting, std::vector<Expr> cell,
                    const std::vector<Bounds>& symbols = {}) {
  Rules r;
  for (const Bounds& b : symbols) r.p.symbols.add({"n" + std::to_string(r.p.symbols.size()), b, {}});
  std::vector<Coord> all;
  Region notified;
  for (uint32_t d = 0; d < cells.size(); ++d) {
    all.push_back({"i", cells[d]});
    notified.push_back({coord(d), 1});
  }
  const GridId first = r.grid("first", all), middle = r.grid("middle", std::move(waiting)),
               last = r.grid("last", {{"i", 1}});
  const EventId a = r.event("a", std::move(cells), 1), b = r.event("b", {}, 1);
  r.notify(first, a, notified);
  r.wait(middle, a, std::move(cell));
  r.notify(middle, b, {});
  r.wait(last, b, {});
  return grids_before(r.p)[last.index].test(first.index);
}

TEST_CASE("a grid is before another only where the tasks between wait for every cell of it") {
  const Expr i = coord(0), j = coord(1), n = symbol(SymbolId{0});
  CHECK(is_before_last({4}, {{"i", 4}}, {i}));
  CHECK(is_before_last({2}, {{"i", 4}}, {floor_div(i, 2)}));
  CHECK(is_before_last({2, 3}, {{"i", 2}, {"j", 3}}, {i, j}));
  CHECK(is_before_last({2, 3}, {{"i", 3}, {"j", 2}}, {j, i}));
  CHECK(is_before_last({2, 2}, {{"i", 2}, {"j", 2}}, {i, j}));
  CHECK(is_before_last({1, 2}, {{"i", 2}}, {0, i}));
  // Nobody waits for some of these cells.
  CHECK_FALSE(is_before_last({4}, {{"i", 4}}, {0}));
  CHECK_FALSE(is_before_last({4}, {{"i", 3}}, {i}));
  CHECK_FALSE(is_before_last({2, 2}, {{"i", 2}}, {i, i}));
  CHECK_FALSE(is_before_last({2}, {{"i", 4}}, {i - 2}));
  // The grid between may have no task, and then waits for nothing.
  CHECK(is_before_last({4}, {{"i", 4}, {"j", n}}, {i}, {{1, 2}}));
  CHECK_FALSE(is_before_last({4}, {{"i", 4}, {"j", n}}, {i}, {{0, 2}}));
}

TEST_CASE("a grid follows on all before its sources only where each cell that it waits for expects one") {
  const Expr cell = coord(0), n = symbol(SymbolId{0});
  const auto is_before = [&](const Expr& expect) {
    Rules r;
    r.symbol_between("n", 0, 3);
    const GridId first = r.grid("first", {{"i", 1}}), middle = r.grid("middle", {{"i", 4}}),
                 last = r.grid("last", {{"i", 4}});
    const EventId a = r.event("a", {}, 1), b = r.event("b", {4}, expect);
    r.notify(first, a, {});
    r.wait(middle, a, {});
    r.notify(middle, b, {{coord(0), 1}});
    r.wait(last, b, {coord(0)});
    return grids_before(r.p)[last.index].test(first.index);
  };
  CHECK(is_before(1));
  CHECK(is_before(4 - cell));
  CHECK(is_before(cell + 1));
  CHECK(is_before(n + 1));
  CHECK_FALSE(is_before(n));
  CHECK_FALSE(is_before(3 - cell));  // nobody notifies the last cell
  CHECK_FALSE(is_before(cell));
}

}  // namespace
}  // namespace mkc
