// These tests print and parse random values of each level, valid or not. Damaged text may be refused or read,
// but never crashes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <random>

#include "ir/print.h"
#include "ir/verify.h"
#include "scheduler/machine/machine.h"
#include "scheduler/place/place.h"
#include "scheduler/proof/prove.h"
#include "tests/unit/scheduler/programs.h"

namespace mkc {
namespace {

// Generator fills every field with values that text must carry, including odd ones.
struct Generator {
  std::mt19937 random;
  uint32_t symbols = 0, tensors = 0, events = 0, coords = 0;

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random() % n); }
  bool chance(uint32_t one_in) { return below(one_in) == 0; }

  int64_t integer() {
    const int64_t odd[] = {INT64_MIN, INT64_MAX, -1, 0, 1};
    return chance(4) ? odd[below(5)] : static_cast<int64_t>(below(1000)) - 100;
  }
  double real() {
    const double odd[] = {0.0, -0.0, 1.0, 1e300, 5e-324, -1.5, 0.1, HUGE_VAL};
    return chance(3) ? odd[below(8)] : static_cast<double>(integer()) / 7;
  }
  // Returns a name that differs from every other name of its table.
  std::string name(const char* stem, uint32_t index) {
    const char* odd[] = {"min", "%", "a b", "\"", "\\", "\n", "l0.x", "\xc3\xa9", "7", "#1", "loc", "run"};
    return chance(3) ? fmt::format("{}{}", odd[below(12)], index) : fmt::format("{}.{}", stem, index);
  }
  Loc loc() {
    if (chance(2)) return {};
    return {chance(2) ? "models/a.yaml" : "odd \"name\".yaml", below(100), below(100)};
  }
  template <class Key>
  Key id(uint32_t count) {
    return {chance(8) || count == 0 ? count + below(5) : below(count)};
  }
  Expr expr(int depth = 3) {
    if (depth == 0 || chance(3)) {
      if (chance(3)) return integer() / 4;
      return chance(2) ? symbol(id<SymbolId>(symbols)) : coord(id<SymbolId>(coords).index);
    }
    Expr e = expr(depth - 1);  // the nodes are built without folding
    const Expr b = expr(depth - 1);
    e.nodes.insert(e.nodes.end(), b.nodes.begin(), b.nodes.end());
    e.nodes.push_back({static_cast<ExprKind>(3 + below(8)), 0});
    return e;
  }
  template <class T>
  std::vector<T> list(uint32_t max, const std::function<T()>& make) {
    std::vector<T> out(below(max + 1));
    for (T& item : out) item = make();
    return out;
  }
  std::vector<Expr> exprs() {
    return list<Expr>(3, [&] { return expr(); });
  }
  Region region() {
    return list<Range>(3, [&] { return Range{expr(), expr()}; });
  }
  std::vector<TensorId> tensor_ids() {
    return list<TensorId>(3, [&] { return id<TensorId>(tensors); });
  }
  Attrs attrs() {
    Attrs out;
    for (uint32_t i = 0; i < below(4); ++i) {
      if (chance(2))
        set_attr(out, name("attr", i), integer());
      else
        set_attr(out, name("attr", i), real());
    }
    return out;
  }

  template <class Level>
  void fill_shared(Level& level) {
    level.name = name("model", 0);
    symbols = below(4);
    tensors = 1 + below(6);
    coords = 0;
    for (uint32_t i = 0; i < symbols; ++i) level.symbols.add({name("s", i), {integer(), integer()}, loc()});
    for (uint32_t i = 0; i < tensors; ++i)
      level.tensors.add({name("t", i),
                         static_cast<TensorKind>(below(6)),
                         static_cast<DType>(below(4)),
                         exprs(),
                         chance(2) ? "" : name("source", i),
                         {tensor_ids(), integer()},
                         loc()});
    for (uint32_t i = 0; i < below(3); ++i)
      level.ropes.push_back({id<TensorId>(tensors), list<double>(4, [&] { return real(); }), real()});
  }

  OpGraph ops() {
    OpGraph graph;
    fill_shared(graph);
    for (uint32_t i = 0; i < below(6); ++i)
      graph.ops.add({static_cast<OpKind>(below(10)), tensor_ids(), tensor_ids(), attrs(),
                     static_cast<int32_t>(below(5)) - 2, loc()});
    return graph;
  }

  Access access() { return {name("role", 0), id<TensorId>(tensors), region(), chance(3)}; }
  TaskGrid grid(uint32_t index) {
    TaskGrid g;
    g.name = name("g", index);
    g.body = static_cast<BodyKind>(below(5));
    coords = 0;
    const uint32_t count = below(3);
    for (uint32_t i = 0; i < count; ++i) g.coords.push_back({name("c", i), expr()});
    coords = count;
    g.reads = list<Access>(3, [&] { return access(); });
    g.writes = list<Access>(3, [&] { return access(); });
    g.waits = list<Wait>(2, [&] { return Wait{id<EventId>(events), exprs()}; });
    g.notifies = list<Notify>(2, [&] { return Notify{id<EventId>(events), region()}; });
    g.attrs = attrs();
    g.ops = list<OpId>(3, [&] { return id<OpId>(100); });
    g.layer = static_cast<int32_t>(below(5)) - 2;
    g.loc = loc();
    return g;
  }
  TaskProgram tasks() {
    TaskProgram program;
    fill_shared(program);
    events = below(4);
    for (uint32_t i = 0; i < events; ++i) {
      coords = 2;
      program.events.add({name("e", i), exprs(), expr(), loc()});
    }
    const uint32_t grids = below(5);
    for (uint32_t i = 0; i < grids; ++i) program.grids.add(grid(i));
    return program;
  }
  Schedule schedule() {
    Schedule s;
    s.program = tasks();
    s.machine = name("machine", 0);
    s.workers = below(5);
    const uint32_t grids = s.program.grids.size();
    for (uint32_t i = 0; i < grids; ++i) {
      const auto kind = static_cast<PlacementKind>(below(5));
      s.placements.push_back({kind, name("reason", i), claims_by_ticket(kind) ? below(99) : 0,
                              kind == PlacementKind::kRange ? below(9) : 0});
    }
    for (uint32_t w = 0; w < below(4); ++w)
      s.streams.push_back(list<Segment>(20, [&] {
        return Segment{id<GridId>(grids), chance(2) ? 0 : below(99), chance(2) ? 0 : UINT32_MAX};
      }));
    s.ring = {below(9), UINT32_MAX};
    for (uint32_t i = 0; i < tensors; ++i)
      s.slots.push_back(chance(2) ? Slot{} : Slot{UINT64_MAX - below(9), below(9)});
    for (uint32_t i = 0; i < events; ++i) s.event_base.push_back(UINT32_MAX - below(9));
    s.event_cells = below(99);
    s.weight_bytes = UINT64_MAX, s.workspace_bytes = below(99);
    return s;
  }
};

template <class Level>
void check_round_trip(const Level& value) {
  const std::string text = print(value);
  const Result<Module> module = parse_mkir(text, "printed.mkir");
  REQUIRE_MESSAGE(module.ok(), module.error().message);
  const auto* back = std::get_if<Level>(&module.value());
  REQUIRE(back);
  REQUIRE_MESSAGE(*back == value, text);
  CHECK(print(*back) == text);
}

TEST_CASE("random values of every level read back from their text") {
  Generator generator{std::mt19937(1)};
  for (int i = 0; i < 500; ++i) {
    check_round_trip(generator.ops());
    check_round_trip(generator.tasks());
    check_round_trip(generator.schedule());
  }
}

TEST_CASE("programs of random sizes read back from their text") {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
    test::ModelShape shape;
    shape.layers = 1 + below(3);
    shape.kv_heads = 1 + below(3);
    shape.heads = shape.kv_heads * (1 + below(3));
    shape.hidden = 16 * (1 + below(5));
    shape.feed_forward = 16 * (1 + below(6));
    const TaskProgram program = test::model_program(shape);
    check_round_trip(program);
    const Result<Schedule> schedule = place(program, load_machine("emulator").value());
    REQUIRE(schedule.ok());
    check_round_trip(schedule.value());
  }
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs the steps of `mkc check`. An error is allowed. A crash, a hang, or a module that cannot be printed is
// not.
void try_text(const std::string& text) {
  Places places;
  const Result<Module> module = parse_mkir(text, "damaged.mkir", &places);
  if (!module.ok()) {
    CHECK(module.error().message.starts_with("damaged.mkir:"));
    return;
  }
  const auto* schedule = std::get_if<Schedule>(&module.value());
  if (verify(module.value(), &places).empty() && schedule) (void)prove(*schedule);
  std::visit([](const auto& level) { print(level); }, module.value());
}

std::string damaged(std::string text, const std::string& other, std::mt19937& random) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  const char* words[] = {"9223372036854775807",
                         "-",
                         "(",
                         "%",
                         "[",
                         "\n",
                         "0",
                         " mod 0",
                         "min(",
                         "\"",
                         "#9",
                         "$7",
                         "//",
                         ":+",
                         "1e999"};
  for (size_t i = 0; i < 1 + below(4); ++i) {
    const size_t at = below(text.size()), length = std::min(below(40), text.size() - at);
    switch (below(5)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, words[below(15)]);
        break;
      case 2:
        text[at] = static_cast<char>(below(256));
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      default:
        text.replace(at, length, other.substr(below(other.size()), length));
    }
    if (text.empty()) text = "m";
  }
  return text;
}

TEST_CASE("damaged text is refused or read, and verified, without harm") {
  std::vector<std::string> texts;
  for (const char* name : {"ops", "tasks", "schedule"})
    texts.push_back(read_file(fmt::format("{}/tests/mkir/valid_{}.mkir", MKC_SOURCE_DIR, name)));
  std::mt19937 random(4);
  for (int i = 0; i < 4000; ++i)
    try_text(damaged(texts[random() % texts.size()], texts[random() % texts.size()], random));
}

}  // namespace
}  // namespace mkc
