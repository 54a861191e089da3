#include "tests/unit/scheduler/fused.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scheduler/tiling/fuse.h"
#include "tests/unit/frontend/fixtures.h"

namespace mkc::test {
namespace {

const std::vector<std::string> kNames{"T",
                                      "B",
                                      "R",
                                      "q_len",
                                      "kv_len",
                                      "first_row",
                                      "blocks",
                                      "block_rows",
                                      "block_first_row",
                                      "block_request",
                                      "block_kv_len",
                                      "partial_positions"};

}  // namespace

std::string grids_of(const TaskProgram& program) {
  std::string out;
  const auto list = [&](const std::vector<Access>& accesses) {
    for (const Access& a : accesses) out += fmt::format(" {}={}", a.role, program.tensors[a.tensor].name);
  };
  for (const TaskGrid& grid : program.grids) {
    out += fmt::format("{} {} [", grid.name, body_name(grid.body));
    std::vector<std::string> coords;
    for (const Coord& c : grid.coords) {
      out += (coords.empty() ? "" : ", ") + to_string(c.extent, kNames, coords);
      coords.push_back(c.name);
    }
    out += "]";
    list(grid.reads);
    out += " ->";
    list(grid.writes);
    out += "\n";
  }
  return out;
}

std::string region_of(const TaskProgram& program, std::string_view grid, std::string_view role, bool writes,
                      Read read) {
  for (const TaskGrid& g : program.grids) {
    if (g.name != grid) continue;
    std::vector<std::string> coords;
    for (const Coord& c : g.coords) coords.push_back(c.name);
    for (const Access& a : writes ? g.writes : g.reads) {
      if (a.role != role || (read != Read::kAny && a.stream != (read == Read::kStreamed))) continue;
      std::string out;
      for (const Range& r : a.region)
        out +=
            fmt::format("[{}:+{}]", to_string(r.offset, kNames, coords), to_string(r.size, kNames, coords));
      return out;
    }
  }
  return "none";
}

TaskProgram fused(const std::string& config) {
  const Result<OpGraph> graph = graph_of(config);
  REQUIRE(graph.ok());
  Result<TaskProgram> program = fuse(graph.value());
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  return program.value();
}

}  // namespace mkc::test
