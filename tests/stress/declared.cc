// Accesses of task bodies against the regions that their grids declare.
#include "codegen/declared.h"

#include <doctest/doctest.h>

#include <regex>

#include "ir/values.h"
#include "tests/stress/tiny_model.h"

namespace mkc::test {
namespace {

// One grid's access, with a dim of its region one smaller at its end.
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

// Dims of which data decide how far they are read: rows of tables by tokens and positions, and logits, which
// only requests read that draw by chance.
bool data_decide(const Access& access, size_t dim) {
  return ((access.role == "table" || access.role == "rope") && dim == 0) || access.role == "logits";
}

// Tables that a segment of experts reads before its first task: nobody's regions are known then.
bool no_task_reads(const TaskGrid& grid, const Access& access, bool written) {
  const bool once = access.role == "slots" || access.role == "slot_begin" || access.role == "token";
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
  HostKernel kernel = compile_for_host(compiled.schedule, {.race = true, .quick = true});
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

TEST_CASE("an access outside what is declared names thread, task, element, region and line") {
  const Compiled compiled(TinyModel{});
  HostKernel kernel = compile_for_host(compiled.schedule, {.race = true, .quick = true});
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

TEST_CASE("where the tables of routing hold what they cannot, nothing is said of their grids") {
  const Schedule schedule = Compiled(with_experts()).schedule;
  std::vector<std::byte> workspace(schedule.workspace_bytes), weights(schedule.weight_bytes);
  std::vector<int32_t> lists(mkrt::kStepLists * mkrt::kMaxRequests), pages(8);
  std::vector<mkrt::MkCache> caches(2);
  mkrt::MkSession session{};
  session.workspace = reinterpret_cast<uint64_t>(workspace.data());
  session.weights = reinterpret_cast<uint64_t>(weights.data());
  session.caches = reinterpret_cast<uint64_t>(caches.data());
  session.page_stride = session.position_stride = session.head_stride = 1 << 20;
  session.page_shift = 6;
  mkrt::MkStep step{};
  step.lists = reinterpret_cast<uint64_t>(lists.data());
  step.page_begin = step.page_index = reinterpret_cast<uint64_t>(pages.data());
  lists[mkrt::kRowsList * mkrt::kMaxRequests] = lists[mkrt::kLengthsList * mkrt::kMaxRequests] = 1;
  for (size_t i = 0; i < 4; ++i) step.symbol[i] = 1;  // one token of one request
  const std::shared_ptr<mkrt::AccessRules> rules = declared_regions(schedule);
  const TaskProgram& program = schedule.program;
  const Bounds found = program.symbols[find_symbol(program.symbols, "slots")].bounds;
  for (const GridId id : program.grids.ids()) {
    const Access* slots = find_operand(program.grids[id], "slots");
    if (slots == nullptr || find_operand(program.grids[id], "slot_rows") == nullptr) continue;
    int32_t* const count = reinterpret_cast<int32_t*>(&workspace[schedule.slots[slots->tensor.index].offset]);
    const auto said = [&](int64_t word) {
      *count = static_cast<int32_t>(word);
      rules->begin_step(session, step);
      return rules->check(id.index, 1000, 1, session.workspace, 4, true);
    };
    CHECK(said(found.lo).find("of a grid of") != std::string::npos);
    CHECK(said(found.hi).find("of a grid of") != std::string::npos);
    CHECK(said(found.hi + 1) == "");
    CHECK(said(found.lo - 1) == "");
  }
}

}  // namespace
}  // namespace mkc::test
