#include "codegen/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "codegen/describe.h"
#include "codegen/device/bodies.h"
#include "codegen/lists.h"
#include "codegen/operands.h"
#include "codegen/targets.h"
#include "runtime/artefact/plan.h"
#include "tests/unit/codegen/fixtures.h"

namespace mkc {
namespace {

using test::edited;
using test::scheduled;

// Plan is a plan read back from its bytes, by the structs of runtime/abi/abi.h.
struct Plan {
  mkrt::MkPlanHeader header;
  std::vector<mkrt::MkGrid> grids;
  std::vector<uint32_t> stream_begin;
  std::vector<mkrt::MkSegment> segments;
  size_t bytes = 0;

  explicit Plan(const std::vector<std::byte>& blob) {
    take(blob, &header, 1);
    grids.resize(header.grids);
    take(blob, grids.data(), grids.size());
    stream_begin.resize(header.workers + 1);
    take(blob, stream_begin.data(), stream_begin.size());
    segments.resize(header.segments);
    take(blob, segments.data(), segments.size());
  }

 private:
  template <class T>
  void take(const std::vector<std::byte>& blob, T* out, size_t count) {
    REQUIRE(bytes + count * sizeof(T) <= blob.size());
    std::memcpy(out, blob.data() + bytes, count * sizeof(T));
    bytes = (bytes + count * sizeof(T) + 15) / 16 * 16;
  }
};

TEST_CASE("layers share kinds: code does not grow with depth") {
  const auto kinds_of = [](const char* layers) {
    return find_kinds(scheduled(edited(test::llama_config(), "\"num_hidden_layers\": 1",
                                       "\"num_hidden_layers\": " + std::string(layers))))
        .first.size();
  };
  const size_t few = kinds_of("3");
  CHECK(few < 16);
  CHECK(kinds_of("12") == few);
}

TEST_CASE("more lists than a worker has room for are an error that says how many bytes") {
  TaskProgram program = scheduled(test::llama_config()).program;
  CHECK(check_lists(program).ok());
  TaskGrid attend = *std::ranges::find(program.grids, BodyKind::kAttend, &TaskGrid::body);
  const Expr pieces = attend.coords[2].extent;
  for (int64_t window = 1; check_lists(program).ok(); ++window) {  // each window size needs a list of its own
    REQUIRE(window < 1000);
    attend.coords[2].extent = min(window, pieces);
    program.grids.add(attend);
  }
  const std::string error = check_lists(program).error().message;
  CHECK(error ==
        "--max-tokens: error: the lists of a step of 64 tokens take 7420 bytes of a worker's shared memory, "
        "which has 7328 for them: fewer tokens, or fewer different windows");
}

TEST_CASE("grids of one kind differ in numbers alone") {
  const Schedule s =
      scheduled(edited(test::qwen3_config(), "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 5"));
  const Kinds kinds = find_kinds(s);
  REQUIRE(kinds.of_grid.size() == s.program.grids.size());
  for (GridId id : s.program.grids.ids()) {
    const TaskGrid& one = s.program.grids[kinds.first[kinds.of_grid[id.index]]];
    const TaskGrid& other = s.program.grids[id];
    CHECK(one.body == other.body);
    CHECK(one.attrs == other.attrs);
    CHECK(one.reads.size() == other.reads.size());
    CHECK(one.waits.size() == other.waits.size());
    CHECK(one.notifies.size() == other.notifies.size());
  }
}

// Returns an entry for each code group of more than one kind: the number of kinds, and the first one's grid.
std::vector<std::pair<size_t, std::string>> shared_code(const Schedule& s) {
  std::vector<std::pair<size_t, std::string>> shared;
  for (const std::vector<GridId>& code : find_kinds(s).shared_code_groups)
    if (code.size() > 1) shared.emplace_back(code.size(), s.program.grids[code.front()].name);
  return shared;
}

TEST_CASE("products share code with a norm and without, the one that picks rows, too") {
  const std::string two_layers =
      edited(test::llama_config(), "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2");
  const Schedule s = scheduled(two_layers);
  size_t kinds = 0;
  for (const std::vector<GridId>& code : find_kinds(s).shared_code_groups) kinds += code.size();
  CHECK(kinds == find_kinds(s).first.size());
  const std::vector<std::pair<size_t, std::string>> all{{8, "l0.q"}}, but_down{{7, "l0.q"}};
  CHECK(shared_code(s) == all);
  // 128 columns of l*.down need no padding. The code for padding of whole chunks serves them, too.
  const auto with_down_of = [&](int columns) {
    return shared_code(scheduled(
        edited(two_layers, "\"intermediate_size\": 48", fmt::format("\"intermediate_size\": {}", columns))));
  };
  CHECK(with_down_of(128) == all);
  // Rows of 44 columns end within a chunk.
  CHECK(with_down_of(44) == but_down);
}

TEST_CASE("both products of an expert share code if their rows are padded alike") {
  const auto shared_with_experts_of = [](int columns) {
    return shared_code(scheduled(edited(test::qwen3_moe_config(), "\"moe_intermediate_size\": 24",
                                        fmt::format("\"moe_intermediate_size\": {}", columns))));
  };
  const auto of_experts = [](const std::vector<std::pair<size_t, std::string>>& shared) {
    return std::ranges::count(shared, std::pair<size_t, std::string>{2, "l0.gate_up"});
  };
  CHECK(of_experts(shared_with_experts_of(24)) == 1);
  CHECK(of_experts(shared_with_experts_of(44)) == 0);  // rows of the second product end within a chunk
}

constexpr uint32_t kAllParts = 2 * mk::kGatherPart - 1;

// Returns each EpiloguePart that the code of products keeps, by the first of these products. The grids of one
// code agree.
std::map<std::string, uint32_t> kept_parts(const Schedule& s) {
  std::map<std::string, uint32_t> kept;
  for (const std::vector<GridId>& code : find_kinds(s).shared_code_groups) {
    const TaskGrid& first = s.program.grids[code.front()];
    if (!multiplies(first)) continue;
    const uint32_t out = left_out(s.program, first);
    for (const GridId id : code) CHECK(left_out(s.program, s.program.grids[id]) == out);
    kept[first.name] = kAllParts & ~out;
  }
  return kept;
}

TEST_CASE("code leaves out the parts of epilogues that none of its grids has") {
  using Kept = std::map<std::string, uint32_t>;
  constexpr uint32_t kLayers = mk::kResidualPart | mk::kNormOutputsPart,
                     kHead = mk::kBestPart | mk::kGatherPart, kGate = mk::kGatePart;
  // The products of layers and head share one code.
  CHECK(kept_parts(scheduled(test::llama_config())) == Kept{{"l0.q", kLayers | kGate | kHead}});
  CHECK(kept_parts(scheduled(test::qwen2_config())) == Kept{{"l0.q", kAllParts}});
  // Experts alone have gates.
  CHECK(kept_parts(scheduled(test::qwen3_moe_config())) ==
        Kept{{"l0.q", kLayers | kHead}, {"l0.gate_up", kGate}});
  // The head is not quantized, so that it has a code of its own.
  const std::string quantized =
      edited(test::llama_config(), "\"num_hidden_layers\": 1",
             R"("quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
      "ignore": ["lm_head"], "config_groups": {"a": {"targets": ["Linear"],
      "weights": {"num_bits": 4, "type": "int", "strategy": "channel"}}}}, "num_hidden_layers": 1)");
  CHECK(kept_parts(scheduled(quantized)) == Kept{{"l0.q", kLayers | kGate}, {"logits", kHead}});
}

TEST_CASE("parts of a product share code with whole ones, and its record says how many there are") {
  const std::string config =
      edited(test::llama_config(), "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2");
  const Schedule s = scheduled(config, "emulator", {{"l*.down", 2, {}}, {"l*.o", 4, {}}});
  const Kinds kinds = find_kinds(s);
  const Plan plan(make_plan(s, kinds));
  const auto code_of = [&](GridId id) {
    return std::ranges::find_if(kinds.shared_code_groups, [&](const std::vector<GridId>& code) {
      return std::ranges::count(code, kinds.first[kinds.of_grid[id.index]]) != 0;
    });
  };
  for (GridId id : s.program.grids.ids()) {
    const std::string& name = s.program.grids[id].name;
    if (!multiplies_in_blocks(s.program.grids[id])) continue;
    CAPTURE(name);
    CHECK(code_of(id) == code_of(GridId{1}));
    CHECK(plan.grids[id.index].product.split_k == (name.ends_with(".down") ? 2
                                                   : name.ends_with(".o")  ? 4
                                                                           : 1));
  }
  CHECK(s.program.grids[GridId{1}].name == "l0.q");
}

TEST_CASE("the record of a product has its sizes") {
  const Schedule s = scheduled(test::llama_config());
  const Plan plan(make_plan(s, find_kinds(s)));
  const auto product = [&](std::string_view name) {
    for (GridId id : s.program.grids.ids())
      if (s.program.grids[id].name == name) return plan.grids[id.index].product;
    FAIL(name);
    return mkrt::MkProduct{};
  };
  const mkrt::MkProduct gate_up = product("l0.gate_up");
  CHECK(gate_up.rows == 96);
  CHECK(gate_up.cols == 32);
  CHECK(gate_up.out_cols == 48);
  CHECK(gate_up.strips == 6);
  CHECK(gate_up.tiles == 1);
  CHECK(gate_up.tail_cols == 128);
  CHECK(gate_up.gate == 1);
  CHECK(gate_up.eps == 1e-5f);
  CHECK(gate_up.gather_rows == 0);
  CHECK(product("logits").strips == 7);
  CHECK(product("logits").gather_rows == 1);
  CHECK(product("l0.down").gate == 0);
  CHECK(product("l0.attend").rows == 0);
}

TEST_CASE("the plan says what the schedule says") {
  const Schedule s =
      scheduled(edited(test::qwen2_config(), "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2"));
  const std::vector<std::byte> blob = make_plan(s, find_kinds(s));
  const Plan plan(blob);
  CHECK(plan.bytes == blob.size());
  CHECK(plan.header.magic == mkrt::kPlanMagic);
  CHECK(plan.header.workers == s.workers);
  REQUIRE(plan.grids.size() == s.program.grids.size());
  std::vector<TensorId> caches;
  for (TensorId t : s.program.tensors.ids())
    if (s.program.tensors[t].kind == TensorKind::kCache) caches.push_back(t);
  CHECK(caches.size() == 4);
  for (GridId id : s.program.grids.ids()) {
    const TaskGrid& grid = s.program.grids[id];
    const mkrt::MkGrid& record = plan.grids[id.index];
    CHECK(record.id == id.index);
    const auto place_of = [&](TensorId t) {
      const auto entry = std::find(caches.begin(), caches.end(), t) - caches.begin();
      return entry < std::ssize(caches) ? static_cast<uint64_t>(entry)
                                        : s.slots[t.index].offset / mkrt::kOperandUnit;
    };
    for (const Access& read : grid.reads)
      CHECK(record.operand[operand_place(grid.body, read.role, false)] == place_of(read.tensor));
    for (const Access& write : grid.writes)
      CHECK(record.operand[operand_place(grid.body, write.role, true)] == place_of(write.tensor));
    const auto none = std::count(std::begin(record.operand), std::end(record.operand), mkrt::kNoOperand);
    std::set<std::string_view> read;  // a grid may read a role twice, once of these streamed
    for (const Access& access : grid.reads) read.insert(access.role);
    CHECK(mkrt::kMaxOperands - none == read.size() + grid.writes.size());
    for (size_t i = 0; i < grid.waits.size(); ++i)
      CHECK(record.wait_base[i] == s.event_base[grid.waits[i].event.index]);
    for (size_t i = 0; i < grid.notifies.size(); ++i)
      CHECK(record.notify_base[i] == s.event_base[grid.notifies[i].event.index]);
  }
  REQUIRE(plan.stream_begin.front() == 0);
  REQUIRE(plan.stream_begin.back() == plan.segments.size());
  for (uint32_t w = 0; w < s.workers; ++w) {
    REQUIRE(plan.stream_begin[w + 1] - plan.stream_begin[w] == s.streams[w].size());
    for (size_t i = 0; i < s.streams[w].size(); ++i) {
      const mkrt::MkSegment& segment = plan.segments[plan.stream_begin[w] + i];
      const bool range = s.placements[segment.grid].kind == PlacementKind::kRange;
      CHECK(segment.grid == s.streams[w][i].grid.index);
      CHECK(segment.first == (range ? range_share(s, GridId{segment.grid}, w) : s.streams[w][i].first));
      CHECK(segment.count == (range ? mkrt::kRangeCount : s.streams[w][i].count));
      CHECK(segment.inline_grid == plan.grids[segment.grid].inline_grid);
    }
  }
}

TEST_CASE("every attend grid names the combine that its last notification runs") {
  const Schedule s =
      scheduled(edited(test::llama_config(), "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 3"));
  const Plan plan(make_plan(s, find_kinds(s)));
  std::set<uint32_t> combines;
  for (GridId id : s.program.grids.ids()) {
    const TaskGrid& grid = s.program.grids[id];
    if (grid.body != BodyKind::kAttend) {
      CHECK(plan.grids[id.index].inline_grid == GridId::kNone);
      continue;
    }
    const GridId combine{plan.grids[id.index].inline_grid};
    REQUIRE(s.program.grids.contains(combine));
    CHECK(s.program.grids[combine].body == BodyKind::kCombine);
    CHECK(s.program.grids[combine].layer == grid.layer);
    combines.insert(combine.index);
  }
  CHECK(combines.size() == 3);
}

TEST_CASE("a plan is what its manifest says, in each mode and for each kind of placement") {
  for (const Mode mode : {Mode::kMegakernel, Mode::kTraced, Mode::kKernels})
    for (const std::string& config : {test::llama_config(), test::qwen3_config()}) {
      const Schedule s = scheduled(config);
      const mkrt::Manifest m = describe(s, {"1.2", "family", "c0", "5c", "sm_90a", {7}, 1, mode});
      const mkrt::Status sound = mkrt::check_manifest(m);
      REQUIRE_MESSAGE(sound.ok(), sound.error().message);
      const mkrt::Status same = mkrt::check_plan(m, make_plan(s, find_kinds(s, mode), mode));
      CHECK_MESSAGE(same.ok(), same.error().message);
      const Mode other = mode == Mode::kTraced ? Mode::kMegakernel : Mode::kTraced;
      CHECK(!mkrt::check_plan(m, make_plan(s, find_kinds(s, mode), other)).ok());
    }
}

TEST_CASE("the manifest accounts for every byte that the kernel addresses") {
  const Schedule s = scheduled(test::llama_config());
  const mkrt::Manifest m = describe(s, {"1.2", "llama", "c0", "5c", "sm_90a", {7}, 1});
  CHECK(m.vocab == 100);
  const int64_t context = m.symbols[3].hi;
  CHECK(m.symbols == std::vector<mkrt::ManifestSymbol>{{"T", 1, 64},
                                                       {"B", 1, 16},
                                                       {"R", 1, 64},
                                                       {"q_len", 1, 64, true},
                                                       {"kv_len", 1, context, true},
                                                       {"first_row", 0, 63, true}});
  CHECK(m.inputs.size() == 2);
  CHECK(m.outputs.size() == 2);
  CHECK(m.eos_ids == std::vector<int32_t>{7});
  std::set<std::string> sources;
  for (const mkrt::ManifestWeight& w : m.weights) {
    CHECK(w.offset + w.bytes <= m.weight_bytes);
    CHECK(w.sources.size() == (w.group == 0 ? 1 : 2));
    for (const std::string& source : w.sources) CHECK(source != "");
    sources.insert(w.sources.begin(), w.sources.end());
  }
  const Result<OpGraph> graph = test::graph_of(test::llama_config());
  for (const CheckpointTensor& t : test::checkpoint_of(graph.value())) CHECK(sources.contains(t.name));
  for (const auto* tensors : {&m.tensors, &m.outputs})
    for (const mkrt::ManifestTensor& t : *tensors) CHECK(t.offset + t.bytes <= m.workspace_bytes);
  CHECK(m.caches.size() == 2);  // keys and values of one layer
  for (const mkrt::ManifestCache& c : m.caches) CHECK(c.heads * c.head_dim > 0);
  uint32_t cells = 0;
  for (const mkrt::ManifestEvent& e : m.events) {
    CHECK(e.first_cell == cells);
    cells += e.cells;
  }
  CHECK(cells == m.event_cells);
}

TEST_CASE("each part of a GPU that is gone without is one engine less, and no other") {
  const auto left = [&](std::string_view list) {
    const Engines e = without({true, true, true}, parse_without(list).value());
    return std::vector<bool>{e.bulk_copy, e.setmaxnreg, e.warpgroups};
  };
  CHECK(left("bulk") == std::vector<bool>{false, true, true});
  CHECK(left("setmaxnreg") == std::vector<bool>{true, false, true});
  CHECK(left("wgmma") == std::vector<bool>{true, true, false});
  CHECK(left("wgmma,bulk,wgmma") == std::vector<bool>{false, true, false});
  CHECK(parse_without("wgmma,bulk,wgmma").value() == std::vector<std::string>{"bulk", "wgmma"});
  CHECK(parse_without("bulk,").error().message == "found \"\", expected some of bulk, setmaxnreg, wgmma");
  CHECK(parse_without("bulk,wgma").error().message ==
        "found \"wgma\", did you mean wgmma?, expected some of bulk, setmaxnreg, wgmma");
}

}  // namespace
}  // namespace mkc
