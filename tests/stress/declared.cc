// Accesses of task bodies against the regions that their grids declare.
#include "codegen/declared.h"

#include <doctest/doctest.h>

#include <regex>

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

bool is_of_experts(const TaskGrid& grid) {
  return grid.body == BodyKind::kRoute || grid.body == BodyKind::kExpert || grid.body == BodyKind::kExpertSum;
}

void check_each_shrunk(const TinyModel& model, bool experts) {
  const Compiled compiled(model);
  HostKernel kernel = compile_for_host(compiled.schedule, {.race = true, .quick = true});
  REQUIRE(run(compiled, kernel, two_steps()).error == "");
  const TaskProgram& program = compiled.schedule.program;
  for (const Shrunk& shrunk : all_shrunk(program)) {
    Schedule schedule = compiled.schedule;
    TaskGrid& grid = schedule.program.grids[shrunk.grid];
    Access& access = access_of(grid, shrunk);
    if (data_decide(access, shrunk.dim) || is_of_experts(grid) != experts) continue;
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
}

TEST_CASE("every access lies in what its task declares, and a region that is one too small is found") {
  check_each_shrunk(TinyModel{}, false);
}

TEST_CASE("the same of experts, whose rows routing decides") {
  TinyModel model;
  model.shape.experts = 4;
  model.shape.expert_ffn = 24;
  check_each_shrunk(model, true);
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

}  // namespace
}  // namespace mkc::test
