// These tests check that accesses of task bodies lie in the regions that their grids declare.
#include "codegen/declared.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <regex>

#include "ir/values.h"
#include "tests/stress/tiny_model.h"

namespace mkc::test {
namespace {

// `Shrunk` names one grid's access, and a dim of its region whose end moves in by one.
struct Shrunk {
  GridId grid;
  size_t access, dim;
  bool written;
};

Access& access_of(TaskGrid& grid, const Shrunk& shrunk) {
  return (shrunk.written ? grid.writes : grid.reads)[shrunk.access];
}

std::vector<Shrunk> all_shrunk(const TaskProgram& program) {
  std::vector<Shrunk> all;
  for (const GridId id : program.grids.ids())
    for (const bool written : {false, true}) {
      const std::vector<Access>& accesses = written ? program.grids[id].writes : program.grids[id].reads;
      for (size_t a = 0; a < accesses.size(); ++a)
        for (size_t d = 0; d < accesses[a].region.size(); ++d) all.push_back({id, a, d, written});
    }
  return all;
}

RunOptions two_steps() {
  RunOptions options;
  options.steps = {20, 1};  // row blocks before a request's last, and a token alone
  options.device.race = true;
  return options;
}

// Returns whether data decide how far a dim is read. Token and position numbers decide it for rows of tables.
// Only requests that sample at random read logits.
bool data_decide(const Access& access, size_t dim) {
  return ((access.role == "table" || access.role == "rope") && dim == 0) || access.role == "logits";
}

// Returns whether a segment of experts reads this table before its first task. Regions of tasks are not known
// then.
bool no_task_reads(const TaskGrid& grid, const Access& access, bool written) {
  const bool once =
      access.role == "active_experts" || access.role == "active_expert_begin" || access.role == "token";
  return once && !written && (grid.body == BodyKind::kExpert || grid.body == BodyKind::kExpertSum);
}

bool is_of_experts(const TaskGrid& grid) {
  return grid.body == BodyKind::kRoute || grid.body == BodyKind::kExpert || grid.body == BodyKind::kExpertSum;
}

TinyModel with_experts() {
  TinyModel model;
  model.shape.family = "qwen3_moe";
  model.shape.experts = 4;
  model.shape.expert_ffn = 24;
  return model;
}

void check_each_shrunk(const TinyModel& model, bool experts) {
  const Compiled compiled(model);
  HostKernel kernel = kernel_of(compiled, {.race = true, .quick = true});
  REQUIRE(run(compiled, kernel, two_steps()).error == "");
  const TaskProgram& program = compiled.schedule.program;
  int tried = 0;
  for (const Shrunk& shrunk : all_shrunk(program)) {
    Schedule schedule = compiled.schedule;
    TaskGrid& grid = schedule.program.grids[shrunk.grid];
    Access& access = access_of(grid, shrunk);
    if (data_decide(access, shrunk.dim) || is_of_experts(grid) != experts ||
        no_task_reads(grid, access, shrunk.written))
      continue;
    ++tried;
    access.region[shrunk.dim].size = access.region[shrunk.dim].size - Expr(1);
    kernel.entries.rules = declared_regions(schedule);
    const std::string error = run(compiled, kernel, two_steps()).error;
    const std::string tensor = program.tensors[access.tensor].name;
    CAPTURE(grid.name);
    CAPTURE(access.role);
    CAPTURE(tensor);
    CAPTURE(shrunk.dim);
    CAPTURE(error);
    const bool is_found = error.find(", of which it declares only ") != error.npos &&
                          error.find("%" + tensor + "[") != error.npos;
    CHECK(is_found);
  }
  CHECK(tried > 20);
}

TEST_CASE("every access lies in what its task declares, and a region that is one too small is found") {
  check_each_shrunk(TinyModel{}, false);
}

TEST_CASE("the same of experts, whose rows routing decides") {
  check_each_shrunk(with_experts(), true);
}

TEST_CASE("the same of codes with scales of rows") {
  TinyModel model;
  model.shape.coding = reference::Coding::kE4m3Rows;
  check_each_shrunk(model, false);
}

TEST_CASE("an access outside what is declared names thread, task, element, region and line") {
  const Compiled compiled(TinyModel{});
  HostKernel kernel = kernel_of(compiled, {.race = true, .quick = true});
  Schedule schedule = compiled.schedule;
  for (TaskGrid& grid : schedule.program.grids)
    if (grid.name == "embed") grid.writes[0].region[1].size = 60;
  kernel.entries.rules = declared_regions(schedule);
  const std::string error = run(compiled, kernel, two_steps()).error;
  CAPTURE(error);
  CHECK(std::regex_match(
      error,
      std::regex(R"(worker \d thread \d+, task embed\[\d+\]: writes %x\[(\d+), 60\], of which it declares )"
                 R"(only %x\[\1:\+1, 0:\+60\], at tokens\.cc:\d+)")));
}

// `Memory` is the memory of a step of one request, in which no kernel has run. Both caches lie at one
// address.
struct Memory {
  std::vector<std::byte> workspace, weights, cache{1 << 20};
  std::vector<int32_t> lists = std::vector<int32_t>(mkrt::kStepLists * mkrt::kMaxRequests), pages{0};
  std::vector<mkrt::MkCache> caches{2};
  mkrt::MkSession session{};
  mkrt::MkStep step{};

  Memory(const Schedule& schedule, int32_t tokens)
      : workspace(schedule.workspace_bytes), weights(schedule.weight_bytes) {
    for (mkrt::MkCache& of : caches) of.base = address(cache);
    session.workspace = address(workspace);
    session.weights = address(weights);
    session.caches = address(caches);
    session.page_stride = session.position_stride = session.head_stride = 1 << 20;
    session.page_shift = 6;
    step.lists = address(lists);
    step.page_begin = step.page_index = address(pages);
    lists[mkrt::kRowsList * mkrt::kMaxRequests] = lists[mkrt::kLengthsList * mkrt::kMaxRequests] = tokens;
    for (const SymbolId id : schedule.program.symbols.ids()) {
      const std::string& name = schedule.program.symbols[id].name;
      if (name == "T" || name == "B" || name == "R") step.symbol[id.index] = name == "T" ? tokens : 1;
    }
  }
  template <class T>
  static uint64_t address(const std::vector<T>& memory) {
    return reinterpret_cast<uint64_t>(memory.data());
  }
};

GridId grid_named(const TaskProgram& program, std::string_view name) {
  for (const GridId id : program.grids.ids())
    if (program.grids[id].name == name) return id;
  MKC_BUG("no such grid");
}

TEST_CASE("of tasks that are taken together each region is named, and of more than four how many more") {
  Schedule schedule = Compiled(TinyModel{}).schedule;
  const GridId embed = grid_named(schedule.program, "embed");
  Access& out = schedule.program.grids[embed].writes[0];
  const int64_t cols = schedule.program.tensors[out.tensor].shape[1].constant();
  out.region[1].size = 60;
  const Memory memory(schedule, 8);
  const std::shared_ptr<mkrt::AccessRules> rules = declared_regions(schedule);
  rules->begin_step(memory.session, memory.step);
  const uint64_t begin = memory.session.workspace + schedule.slots[out.tensor.index].offset;
  const auto said = [&](uint32_t first, uint32_t count, int64_t row, int64_t col) {
    return rules->check(embed.index, first, count, begin + static_cast<uint64_t>(row * cols + col) * 4, 4,
                        true);
  };
  CHECK(said(2, 4, 5, 59) == "");
  CHECK(said(2, 4, 6, 0).starts_with("writes %x[6, 0], of which it declares only %x[2:+1, 0:+60] %x[3:+1, "));
  CHECK(
      said(2, 4, 2, 60) ==
      "writes %x[2, 60], of which it declares only %x[2:+1, 0:+60] %x[3:+1, 0:+60] %x[4:+1, 0:+60] %x[5:+1, "
      "0:+60]");
  CHECK(
      said(1, 5, 2, 60) ==
      "writes %x[2, 60], of which it declares only %x[1:+1, 0:+60] %x[2:+1, 0:+60] %x[3:+1, 0:+60] %x[4:+1, "
      "0:+60] and 1 more");
  CHECK(said(4, 5, 4, 0) == "works for tasks 4 to 8 of a grid of 8");
  CHECK(said(4, 4, 4, 0) == "");
}

TEST_CASE("elements of caches are found by the session's strides, and what lies between them is nobody's") {
  const Schedule schedule = Compiled(TinyModel{}).schedule;
  const GridId append = grid_named(schedule.program, "l0.attend");
  const Access& written = *find_operand(schedule.program.grids[append], "k_cache", true);
  const std::vector<Expr>& shape = schedule.program.tensors[written.tensor].shape;
  const auto heads = static_cast<uint64_t>(shape[1].constant()),
             size = static_cast<uint64_t>(shape[3].constant());
  const std::shared_ptr<mkrt::AccessRules> rules = declared_regions(schedule);
  for (const bool heads_inside : {true, false}) {
    CAPTURE(heads_inside);
    Memory memory(schedule, 1);
    mkrt::MkSession& s = memory.session;
    // The strides leave room for one element behind each head, and for one head behind each position or page.
    (heads_inside ? s.head_stride : s.position_stride) = (size + 1) * 2;
    (heads_inside ? s.position_stride : s.head_stride) = (heads_inside ? heads + 1 : 64) * (size + 1) * 2;
    s.page_stride = heads_inside ? 64 * s.position_stride : (heads + 1) * s.head_stride;
    rules->begin_step(s, memory.step);
    const auto said = [&](uint64_t head, uint64_t position, uint64_t element) {
      const uint64_t at = head * s.head_stride + position * s.position_stride + element * 2;
      return rules->check(append.index, 0, 1, memory.caches[0].base + at, 2, true);
    };
    CHECK(said(0, 0, 0) == "");
    CHECK(said(0, 0, size - 1) == "");
    CHECK(said(0, 0, size) == "");
    CHECK(said(heads, 0, 0) == "");
    CHECK(said(heads - 1, 5, 3)
              .starts_with(
                  fmt::format("writes %l0.k_cache[0, {}, 5, 3], of which it declares only ", heads - 1)));
    CHECK(said(0, 63, size - 1)
              .starts_with(
                  fmt::format("writes %l0.k_cache[0, 0, 63, {}], of which it declares only ", size - 1)));
  }
}

TEST_CASE("where the tables of routing hold what they cannot, nothing is said of their grids") {
  const Schedule schedule = Compiled(with_experts()).schedule;
  Memory memory(schedule, 1);
  const std::shared_ptr<mkrt::AccessRules> rules = declared_regions(schedule);
  const TaskProgram& program = schedule.program;
  const Bounds found = program.symbols[find_symbol(program.symbols, "active_experts")].bounds;
  for (const GridId id : program.grids.ids()) {
    const Access* active = find_operand(program.grids[id], "active_experts");
    if (active == nullptr || find_operand(program.grids[id], "active_expert_rows") == nullptr) continue;
    auto* const count =
        reinterpret_cast<int32_t*>(&memory.workspace[schedule.slots[active->tensor.index].offset]);
    const auto said = [&](int64_t word) {
      *count = static_cast<int32_t>(word);
      rules->begin_step(memory.session, memory.step);
      return rules->check(id.index, 1000, 1, memory.session.workspace, 4, true);
    };
    CHECK(said(found.lo).find("of a grid of") != std::string::npos);
    CHECK(said(found.hi).find("of a grid of") != std::string::npos);
    CHECK(said(found.hi + 1) == "");
    CHECK(said(found.lo - 1) == "");
  }
}

}  // namespace
}  // namespace mkc::test
