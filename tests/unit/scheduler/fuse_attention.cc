// These tests check row blocks, partials and windows of fused attention.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "ir/values.h"
#include "scheduler/tiling/fuse.h"
#include "tests/unit/frontend/fixtures.h"
#include "tests/unit/scheduler/fused.h"

namespace mkc {
namespace {

using test::edited;
using test::fused;
using test::graph_of;
using test::grids_of;
using test::Read;
using test::region_of;

// kEarlier is the first position of a request's rows in the step. kWritten is the first position that attend
// writes by itself.
const std::string kRequest = "min(block_request[k], B - 1)",
                  kEarlier = "kv_len[" + kRequest + "] - q_len[" + kRequest + "]",
                  kWritten = "min(block_kv_len[k], kv_len[" + kRequest + "] - (1 + (q_len[" + kRequest +
                             "] - 1) mod 8))";

TEST_CASE(
    "a request's last rows come into the cache by each piece, those before in blocks, and earlier ones "
    "stream") {
  const TaskProgram program = fused(test::llama_config());
  const std::string head = "[" + kRequest + ":+1][g:+1]", first = "max(0, block_kv_len[k] - block_rows[k])",
                    appended = "max(256*p, " + kEarlier + ")", own = "max(256*p, " + kWritten + ")";
  CHECK(region_of(program, "l0.append", "k_cache", true) ==
        head + "[" + first + ":+block_kv_len[k] - " + first + "][0:+8]");
  CHECK(region_of(program, "l0.attend", "k_cache", false, Read::kStreamed) ==
        head + "[256*p:+min(256*p + 256, " + kEarlier + ") - 256*p][0:+8]");
  CHECK(region_of(program, "l0.attend", "k_cache", false, Read::kWaitedFor) ==
        head + "[" + appended + ":+min(256*p + 256, " + kWritten + ") - " + appended + "][0:+8]");
  CHECK(region_of(program, "l0.attend", "k_cache", true) ==
        head + "[" + own + ":+min(256*p + 256, block_kv_len[k]) - " + own + "][0:+8]");
  CHECK(region_of(program, "l0.combine", "partial_ml", false) ==
        "[0:+block_kv_len[k] ceildiv 256][block_first_row[k]:+min(block_rows[k], T - "
        "block_first_row[k])][4*g:+4]");
}

TEST_CASE("rows are cut into blocks of up to 16 queries of a head's group, each request's last block last") {
  const TaskProgram program = fused(test::llama_config());
  const std::optional<RowBlocks> blocks = step_symbols(program.symbols).blocks;
  REQUIRE(blocks);
  CHECK(blocks->max_rows == 8);
  const std::vector<int64_t> values =
      step_values(program.symbols, std::vector<StepRequest>{{17, 20}, {1, 9}, {8, 8}, {9, 60}});
  const auto list = [&](SymbolId id) {
    const auto begin = values.begin() + values[id.index];
    return std::vector<int64_t>(begin, begin + values[blocks->count.index]);
  };
  CHECK(list(blocks->request) == std::vector<int64_t>{0, 0, 3, 0, 1, 2, 3});
  CHECK(list(blocks->rows) == std::vector<int64_t>{8, 8, 8, 1, 1, 8, 1});
  CHECK(list(blocks->first_row) == std::vector<int64_t>{0, 8, 26, 16, 17, 18, 34});
  CHECK(list(blocks->kv_len) == std::vector<int64_t>{11, 19, 59, 20, 9, 8, 60});
}

TaskProgram fused_long(int64_t context, int64_t tokens) {
  ModelOptions options;
  options.context = context;
  options.max_tokens = tokens;
  const Result<OpGraph> graph = graph_of(edited(test::llama_config(), "\"max_position_embeddings\": 64",
                                                fmt::format("\"max_position_embeddings\": {}", context)),
                                         options);
  REQUIRE(graph.ok());
  return fuse(graph.value()).value();
}

TEST_CASE("in contexts of several pieces attention leaves parts that its step has slots for") {
  CHECK(!step_symbols(fused_long(256, 64).symbols).blocks->partial_positions.valid());
  const TaskProgram program = fused_long(131'072, 64);
  const std::string parts = "block_kv_len[k] ceildiv partial_positions";
  CHECK(grids_of(program).find("l0.attend attend [2, blocks, " + parts + "] ") != std::string::npos);
  CHECK(region_of(program, "l0.attend", "partial_ml", true) ==
        "[p:+min(1, 4096 floordiv T - p)][block_first_row[k]:+min(block_rows[k], T - block_first_row[k])]"
        "[4*g:+4]");
  CHECK(region_of(program, "l0.combine", "partial_ml", false) ==
        "[0:+min(" + parts +
            ", 4096 floordiv T)][block_first_row[k]:+min(block_rows[k], T - block_first_row[k])][4*g:+4]");
  CHECK(region_of(program, "l0.attend", "k_cache", true).find("[max(partial_positions*p, ") !=
        std::string::npos);
}

TEST_CASE("a part is a span where these keep all workers busy, or where there are no slots for pieces") {
  const Symbols symbols = fused_long(131'072, 64).symbols;  // blocks have 8 rows, and there are 4096 slots
  const auto part = [&](const std::vector<StepRequest>& step) { return partial_positions(symbols, step); };
  CHECK(part({{1, 15 * 2048}}) == 256);
  CHECK(part({{1, 15 * 2048 + 1}}) == 2048);
  CHECK(part(std::vector<StepRequest>(15, {1, 1})) == 256);
  CHECK(part(std::vector<StepRequest>(16, {1, 1})) == 2048);
  CHECK(part({{8, 7 * 2048}, {8, 7 * 2048}, {8, 300}}) == 256);
  CHECK(part({{8, 7 * 2048}, {8, 7 * 2048}, {9, 300}}) == 2048);
  const Symbols few = fused_long(4500, 8).symbols;  // there are 128 slots
  CHECK(partial_positions(few, std::vector<StepRequest>{{3, 4400}, {4, 4}}) == 256);
  CHECK(partial_positions(few, std::vector<StepRequest>{{3, 4400}, {5, 5}}) == 2048);
}

TEST_CASE("whatever a step, each of its rows has slots for its parts") {
  std::mt19937 random(1);
  const auto draw = [&](int64_t max) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(max));
  };
  for (const int64_t context : {300, 4096, 40'960, 131'072, 1'000'000})
    for (const int64_t max_tokens : {1, 3, 64, 256}) {
      const Symbols symbols = fused_long(context, max_tokens).symbols;
      const int64_t slots = partial_slots(symbols);
      REQUIRE(slots % max_tokens == 0);
      for (int step = 0; step < 1000; ++step) {
        std::vector<StepRequest> requests;
        int64_t tokens = 0, longest = 0;
        for (int64_t left = draw(max_tokens); left > 0; left = max_tokens - tokens - draw(max_tokens)) {
          const int64_t kv_len = draw(context);
          requests.push_back({std::min(kv_len, draw(left)), kv_len});
          tokens += requests.back().rows;
          longest = std::max(longest, kv_len);
        }
        const int64_t part = partial_positions(symbols, requests);
        REQUIRE((longest + part - 1) / part <= slots / tokens);
      }
    }
}

TEST_CASE("what a step's blocks may be is declared with its bounds") {
  OpGraph graph = graph_of(test::llama_config()).value();
  std::string found;
  const TaskProgram program = fuse(graph).value();
  for (const Symbol& s : program.symbols)
    found += fmt::format("{} [{}, {}]\n", s.name, s.bounds.lo, s.bounds.hi);
  // Blocks have 8 rows: 64 tokens of 16 requests are cut into at most 22 blocks.
  CHECK(found == R"(T [1, 64]
B [1, 16]
R [1, 64]
q_len [1, 64]
kv_len [1, 64]
first_row [0, 63]
blocks [1, 22]
block_rows [1, 8]
block_first_row [0, 63]
block_request [0, 15]
block_kv_len [1, 64]
)");
}

TEST_CASE("attention with a window walks only the pieces that a block's first token can see") {
  const std::string config =
      edited(test::mistral_config(), "\"sliding_window\": null", "\"sliding_window\": 32");
  const TaskProgram program = fused(config);
  const std::string first = "max(0, block_kv_len[k] - block_rows[k] + 1 - 32) floordiv 256",
                    begin = "256*(" + first + " + p)", own = "max(" + begin + ", " + kWritten + ")",
                    pieces = "min(1, max(1, block_kv_len[k] ceildiv 256 - " + first + "))";
  CHECK(grids_of(program).find("l0.attend attend [2, blocks, " + pieces + "] ") != std::string::npos);
  CHECK(region_of(program, "l0.attend", "k_cache", true) == "[" + kRequest + ":+1][g:+1][" + own + ":+min(" +
                                                                begin + " + 256, block_kv_len[k]) - " + own +
                                                                "][0:+8]");
  CHECK(region_of(program, "l0.combine", "partial_acc", false) ==
        "[0:+" + pieces + "][block_first_row[k]:+min(block_rows[k], T - block_first_row[k])][16*g:+16]");
  // A window that reaches past the cache is no window.
  CHECK(fused(edited(test::mistral_config(), "\"sliding_window\": null", "\"sliding_window\": 64")).grids ==
        fused(test::mistral_config()).grids);
}

// Returns the largest number of KV tiles that the rows of a block look at, over all lengths of the request.
int64_t max_looked_at(int64_t context, int64_t window, int64_t max_rows) {
  int64_t max = 0;
  for (int64_t length = 1; length <= context; ++length)
    for (int64_t rows = 1; rows <= std::min(length, max_rows); ++rows)
      max = std::max(max, (length - 1) / 256 - std::max<int64_t>(0, length - rows + 1 - window) / 256 + 1);
  return max;
}

TEST_CASE("attention with a window has parts for the pieces that it can look at, not for the context") {
  const std::string longer =
      edited(test::mistral_config(), "\"max_position_embeddings\": 64", "\"max_position_embeddings\": 4096");
  for (const int64_t window : {1, 2, 193, 194, 195, 600, 3900, 4000}) {
    CAPTURE(window);
    const TaskProgram program =
        fused(edited(longer, "\"sliding_window\": null", fmt::format("\"sliding_window\": {}", window)));
    const int64_t max_rows = step_symbols(program.symbols).blocks->max_rows;
    for (const Tensor& tensor : program.tensors)
      if (tensor.name == "l0.attend.partial_acc")
        CHECK(tensor.shape[0].constant() == max_looked_at(4096, window, max_rows));
  }
  const TaskProgram program = fused(edited(longer, "\"sliding_window\": null", "\"sliding_window\": 600"));
  CHECK(grids_of(program).find("l0.attend attend [2, blocks, min(4, max(1, block_kv_len[k] ceildiv 256 - ") !=
        std::string::npos);
}

}  // namespace
}  // namespace mkc
