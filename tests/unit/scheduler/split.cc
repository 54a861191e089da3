#include "scheduler/tiling/split.h"

#include <doctest/doctest.h>

#include "ir/print.h"
#include "ir/verify.h"
#include "scheduler/events/events.h"
#include "scheduler/machine/machine.h"
#include "scheduler/place/place.h"
#include "scheduler/proof/prove.h"
#include "scheduler/tiling/fuse.h"
#include "tests/unit/frontend/fixtures.h"

namespace mkc {
namespace {

// Returns one layer of Llama, split by the rules. The hidden size is 32, and gate_up makes 48 columns for
// down.
TaskProgram fused(const std::vector<SplitRule>& rules) {
  const Result<OpGraph> graph = test::graph_of(test::llama_config());
  REQUIRE(graph.ok());
  const Result<TaskProgram> program = fuse(graph.value());
  REQUIRE(program.ok());
  const Result<TaskProgram> split = split_as_asked(program.value(), rules);
  REQUIRE_MESSAGE(split.ok(), (split.ok() ? "" : split.error().message));
  CHECK(verify(split.value()).empty());
  return split.value();
}

// Returns the grid's lines in the text of the program, without source places.
std::string lines_of(const TaskProgram& program, const std::string& grid) {
  const std::string text = print(program), begin = "grid %" + grid + "[";
  std::string out = text.substr(text.find(begin));
  out = out.substr(0, out.find("\ngrid ", 1) + 1);
  return out.substr(0, out.find(" ops")) + out.substr(out.find('\n'));
}

TEST_CASE("a product in parts leaves sums, which another grid adds up for it") {
  const TaskProgram program = fused({{"l0.down", 2, {}}});
  CHECK(lines_of(program, "l0.down") ==
        "grid %l0.down[p: 2, j: 2]: split_k_partial {wgmma_from = 65} layer 0\n"
        "  read x %l0.act[0:+T, 0:+48]\n"
        "  read weight %l0.down.packed[16*j:+16, 64*p:+min(64, 48 - 64*p)] stream\n"
        "  write sums %l0.down.sums[j:+1, 4*p:+4, 0:+T, 0:+16]\n");
  CHECK(lines_of(program, "l0.down_reduce") ==
        "grid %l0.down_reduce[j: 2]: split_k_reduce layer 0\n"
        "  read sums %l0.down.sums[j:+1, 0:+8, 0:+T, 0:+16]\n"
        "  read residual %l0.y[0:+T, 16*j:+16]\n"
        "  read next_norm %final_norm[16*j:+16]\n"
        "  write out %l0.x[0:+T, 16*j:+16]\n"
        "  write x_bf16 %l0.x.x_bf16[0:+T, 16*j:+16]\n"
        "  write sum_squares %l0.x.sum_squares[0:+T, j:+1]\n");
}

TEST_CASE("what scales a product goes to its finish") {
  const TaskProgram program = fused({{"*.gate_up", 4, {}}});
  CHECK(lines_of(program, "l0.gate_up") ==
        "grid %l0.gate_up[p: 4, j: 6]: split_k_partial {wgmma_from = 65} layer 0\n"
        "  read x %l0.y.x_bf16[0:+T, 0:+32]\n"
        "  read weight %l0.gate_up.packed[16*j:+16, 32*p:+min(32, 32 - 32*p)] stream\n"
        "  write sums %l0.gate_up.sums[j:+1, 2*p:+2, 0:+T, 0:+16]\n");
  CHECK(lines_of(program, "l0.gate_up_reduce") ==
        "grid %l0.gate_up_reduce[j: 6]: split_k_reduce {columns = 32, eps = 1.0000000000000001e-05, gate "
        "= 1} "
        "layer 0\n"
        "  read sums %l0.gate_up.sums[j:+1, 0:+8, 0:+T, 0:+16]\n"
        "  read sum_squares %l0.y.sum_squares[0:+T, 0:+2]\n"
        "  write out %l0.act[0:+T, 8*j:+8]\n");
}

TEST_CASE("the last rule that fits a product decides, and 1 leaves it whole") {
  const TaskProgram program = fused({{"l0.[od]*", 2, {}}, {"*.o", 8, {}}, {"*.down", 1, {}}});
  for (const TaskGrid& grid : program.grids) {
    if (grid.name == "l0.o") CHECK(split_k(grid) == 8);
    if (grid.name == "l0.down") CHECK(grid.body == BodyKind::kProduct);
  }
}

TEST_CASE("what cannot be split is an error at its rule") {
  const Result<OpGraph> graph = test::graph_of(test::llama_config());
  const Result<TaskProgram> program = fuse(graph.value());
  const auto error = [&](const char* grids, int64_t parts) {
    const auto split = split_as_asked(program.value(), {{grids, parts, {"model.yaml", 3, 5}}});
    return split.ok() ? "accepted" : split.error().message;
  };
  CHECK(error("l0.dow", 2) == "model.yaml:3:5: error: no grid is named 'l0.dow', did you mean 'l0.down'?");
  CHECK(error("l0.down", 3) ==
        "model.yaml:3:5: error: %l0.down cannot be split into 3 parts: parts are 2, 4 or 8, which share out "
        "8 K slices");
  CHECK(error("l0.attend", 2) ==
        "model.yaml:3:5: error: %l0.attend cannot be split into 2 parts: it is no product");
  CHECK(
      error("logits", 2) ==
      "model.yaml:3:5: error: %logits cannot be split into 2 parts: it leaves the best logit of each strip");
}

TEST_CASE("the proof misses a part that a strip's finish does not wait for") {
  const Result<Machine> machine = load_machine("emulator");
  const auto proved = [&](bool all) {
    Result<TaskProgram> program = derive_events(fused({{"l0.down", 2, {}}}), {});
    for (TaskGrid& grid : program.value().grids)
      if (grid.name == "l0.down" && !all)
        grid.notifies[0].cells[0].size = 1 - coord(0);  // only the first part notifies
    for (Event& event : program.value().events)
      if (event.name == "l0.down_reduce_ready") event.expect = all ? 2 : 1;
    const Result<ProofReport> proof = prove(place(program.value(), machine.value(), {3}).value());
    return proof.ok() ? "" : proof.error().message;
  };
  CHECK(proved(true) == "");
  CHECK(proved(false) ==
        "error: unproved: %l0.down notifies @l0.down_reduce_ready in a way that cannot be counted: its cells "
        "move in no known way");
}

}  // namespace
}  // namespace mkc
