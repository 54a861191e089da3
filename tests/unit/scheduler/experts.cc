// These tests check the task grids of experts, and the proof that loaders look up data that is there.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/print.h"
#include "ir/values.h"
#include "ir/verify.h"
#include "scheduler/events/events.h"
#include "scheduler/machine/control_path.h"
#include "scheduler/machine/machine.h"
#include "scheduler/place/place.h"
#include "scheduler/proof/chosen_values.h"
#include "scheduler/proof/prove.h"
#include "scheduler/simulate/simulate.h"
#include "scheduler/tiling/fuse.h"
#include "tests/unit/frontend/fixtures.h"

namespace mkc {
namespace {

// The second layer makes memory serve twice.
std::string two_layers() {
  return test::edited(test::qwen3_moe_config(), "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2");
}

TaskProgram program_of(const std::string& config, uint32_t workers = 132) {
  const Result<OpGraph> graph = test::graph_of(config);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  Result<TaskProgram> program = fuse(graph.value(), {.workers = workers});
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  return program.value();
}

Schedule schedule_of(const std::string& config) {
  Result<TaskProgram> program = derive_events(program_of(config), {});
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  Result<Machine> machine = load_machine("emulator");
  REQUIRE_MESSAGE(machine.ok(), machine.error().message);
  Result<Schedule> schedule = place(program.value(), machine.value(), {});
  REQUIRE_MESSAGE(schedule.ok(), schedule.error().message);
  return schedule.value();
}

TaskGrid& grid(TaskProgram& program, const std::string& name) {
  const auto found = std::find_if(program.grids.items.begin(), program.grids.items.end(),
                                  [&](const TaskGrid& g) { return g.name == name; });
  REQUIRE(found != program.grids.items.end());
  return *found;
}

std::string error_of(const Schedule& schedule) {
  const Result<ProofReport> proof = prove(schedule);
  return proof.ok() ? "" : proof.error().message;
}

}  // namespace

TEST_CASE("a layer of experts is a route, two grids over strips and experts with tokens, and a sum") {
  const TaskProgram program = program_of(two_layers());
  CHECK(verify(program).empty());
  const std::string text = print(program), begin = "grid %l0.choice[]";
  const size_t at = text.find(begin), end = text.find("grid %l1.q[");
  REQUIRE(at != std::string::npos);
  std::string grids;
  for (size_t from = at; from < end;) {  // the source places are cut off
    const size_t to = text.find('\n', from);
    const std::string line = text.substr(from, to - from);
    grids += line.substr(0, line.find(" layer ")) + "\n";
    from = to + 1;
  }
  CHECK(grids == R"(grid %l0.choice[]: route {norm_topk = 0, top_k = 2}
  read logits %l0.router_logits[0:+T, 0:+4]
  write routing_weight %l0.routing_weight[0:+T, 0:+2]
  write active_experts %l0.choice.active_experts[0:+1]
  write expert %l0.choice.expert[0:+4]
  write active_expert_rows %l0.choice.active_expert_rows[0:+4]
  write active_expert_begin %l0.choice.active_expert_begin[0:+4]
  write token %l0.choice.token[0:+2*T]
  write row %l0.choice.row[0:+T, 0:+2]
grid %l0.gate_up[j: 3, s: active_experts]: expert {eps = 1.0000000000000001e-05, gate = 1, top_k = 2}
  read x %l0.y.x_bf16[0:+T, 0:+32]
  read token %l0.choice.token[active_expert_begin[s]:+min(active_expert_rows[s], 2*T - active_expert_begin[s])]
  read weight %l0.gate_up.packed[0:+4, 16*j:+16, 0:+32] stream
  read active_experts %l0.choice.active_experts[0:+1]
  read expert %l0.choice.expert[0:+4]
  read active_expert_rows %l0.choice.active_expert_rows[0:+4]
  read active_expert_begin %l0.choice.active_expert_begin[0:+4]
  read sum_squares %l0.y.sum_squares[0:+T, 0:+2]
  write out %l0.act[active_expert_begin[s]:+min(active_expert_rows[s], 2*T - active_expert_begin[s]), 8*j:+8]
grid %l0.expert_down[j: 2, s: active_experts]: expert {top_k = 2}
  read rows %l0.act[active_expert_begin[s]:+min(active_expert_rows[s], 2*T - active_expert_begin[s]), 0:+24]
  read weight %l0.expert_down.packed[0:+4, 16*j:+16, 0:+24] stream
  read active_experts %l0.choice.active_experts[0:+1]
  read expert %l0.choice.expert[0:+4]
  read active_expert_rows %l0.choice.active_expert_rows[0:+4]
  read active_expert_begin %l0.choice.active_expert_begin[0:+4]
  write out %l0.expert_down[active_expert_begin[s]:+min(active_expert_rows[s], 2*T - active_expert_begin[s]), 16*j:+16]
grid %l0.down[t: T, c: 1]: expert_sum
  read x %l0.expert_down[0:+2*T, 512*c:+min(512, 32 - 512*c)]
  read routing_weight %l0.routing_weight[t:+1, 0:+2]
  read active_experts %l0.choice.active_experts[0:+1]
  read row %l0.choice.row[t:+1, 0:+2]
  read residual %l0.y[t:+1, 512*c:+min(512, 32 - 512*c)]
  read next_norm %l1.input_norm[512*c:+min(512, 32 - 512*c)]
  write out %l0.x[t:+1, 512*c:+min(512, 32 - 512*c)]
  write x_bf16 %l0.x.x_bf16[t:+1, 512*c:+min(512, 32 - 512*c)]
  write sum_squares %l0.x.sum_squares[t:+1, c:+1]
)");
}

// An expert has 3 strips of gate and up, and 2 of down. A token chooses 2 experts.
TEST_CASE("a task has as many strips of an expert as leave no worker more of them") {
  const auto strips = [](uint32_t workers, const std::string& config) {
    TaskProgram program = program_of(config, workers);
    CHECK(verify(program).empty());
    const Result<TaskProgram> with_events = derive_events(program, {});
    REQUIRE(with_events.ok());
    return std::pair{task_strips(grid(program, "l0.gate_up")), task_strips(grid(program, "l0.expert_down"))};
  };
  CHECK(strips(1, two_layers()) == std::pair<int64_t, int64_t>{3, 2});
  CHECK(strips(2, two_layers()) == std::pair<int64_t, int64_t>{3, 2});
  CHECK(strips(3, two_layers()) == std::pair<int64_t, int64_t>{1, 2});
  CHECK(strips(4, two_layers()) == std::pair<int64_t, int64_t>{2, 1});
  CHECK(strips(6, two_layers()) == std::pair<int64_t, int64_t>{1, 1});
  CHECK(strips(1, test::edited(two_layers(), "bfloat16", "float32")) == std::pair<int64_t, int64_t>{1, 1});
  const std::string text = print(program_of(two_layers(), 4));
  for (const char* part :
       {"grid %l0.gate_up[j: 2, s: active_experts]: expert {eps = 1.0000000000000001e-05, gate = 1, "
        "strips = 2, "
        "top_k = 2}",
        "read weight %l0.gate_up.packed[0:+4, 32*j:+min(32, 48 - 32*j), 0:+32] stream",
        "min(active_expert_rows[s], 2*T - active_expert_begin[s]), 16*j:+min(16, 24 - 16*j)]"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
}

TEST_CASE("which rows active_experts have is fetched between the lookup and the wait for rows") {
  const TaskProgram program = program_of(test::qwen3_moe_config(), 1);
  Machine machine = load_machine("emulator").value();
  machine.fetch_ns = 1e6;
  const Schedule schedule = place(derive_events(program, {}).value(), machine, {.workers = 1}).value();
  const Simulation s = simulate(schedule, machine, step_values(program.symbols, {{{1, 8}}}, {}), {}).value();
  const auto first = [&](const char* name) {
    return *std::find_if(s.tasks.begin(), s.tasks.end(),
                         [&](const TaskTime& t) { return program.grids[t.grid].name == name; });
  };
  const TaskTime route = first("l0.choice"), up = first("l0.gate_up"), down = first("l0.expert_down");
  CHECK(up.begin_ns - route.end_ns == doctest::Approx(machine.notify_ns + machine.barrier_ns + 1e6));
  const double start_ns = path_ns(machine, kProductStart);
  CHECK(up.ready_ns - up.begin_ns == doctest::Approx(start_ns));
  CHECK(down.begin_ns - down.reached_ns >= 1e6);
  CHECK(down.begin_ns - down.reached_ns < 1.5e6);
  CHECK(down.ready_ns - down.begin_ns == doctest::Approx(start_ns));
}

TEST_CASE("the strips of a task are simulated together, and read but once") {
  const auto simulated = [](uint32_t workers) {
    const TaskProgram program = program_of(test::qwen3_moe_config(), workers);
    Machine machine = load_machine("emulator").value();
    machine.reduce_ns = 1e9;
    PlaceOptions options{1};
    options.scheduler = Scheduler::kStatic;
    const Schedule schedule = place(derive_events(program, {}).value(), machine, options).value();
    return simulate(schedule, machine, step_values(program.symbols, {{{24, 24}}}, {}), {}).value();
  };
  const Simulation alone = simulated(132), together = simulated(1);
  CHECK(together.bytes == alone.bytes);
  CHECK(together.padding_bytes == alone.padding_bytes);
  // Each of 4 experts has 12 rows. It saves 2 of 3 reductions for gate and up, and 1 of 2 for down.
  CHECK(alone.ns - together.ns == doctest::Approx(4 * (3 - 1 + 2 - 1) * 1e9));
}

TEST_CASE("with one choice a token, rows of experts are not taken for tokens") {
  TaskProgram program =
      program_of(test::edited(two_layers(), "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 1"));
  CHECK(verify(program).empty());
  CHECK(grid(program, "l0.gate_up").reads[0].role == "x");
  CHECK(grid(program, "l0.expert_down").reads[0].role == "rows");
}

TEST_CASE("grids of experts look up what the route found, and count by it") {
  TaskProgram program = schedule_of(two_layers()).program;
  CHECK(verify(program).empty());
  std::string text = print(program), found;
  for (const char* begin : {"event @l0.gate_up_ready", "event @l0.expert_down_ready", "event @l0.down_ready"})
    found += text.substr(text.find(begin), text.find(" loc(", text.find(begin)) - text.find(begin)) + "\n";
  CHECK(found == R"(event @l0.gate_up_ready[] expect 1
event @l0.expert_down_ready[active_experts] expect 3
event @l0.down_ready[] expect 2*active_experts
)");
  for (const char* name : {"l0.gate_up", "l0.expert_down", "l0.down"}) {
    const std::vector<Wait>& waits = grid(program, name).waits;
    CHECK(waits.size() == (name == std::string("l0.gate_up") ? 1 : 2));
    for (size_t i = 0; i < waits.size(); ++i) CHECK(waits[i].lookup == (i == 0));
    CHECK(program.events[waits[0].event].name == "l0.gate_up_ready");
  }
}

TEST_CASE("a lookup of what may not be there yet, or no longer, is refused") {
  Schedule s = schedule_of(two_layers());
  CHECK(error_of(s) == "");
  grid(s.program, "l0.expert_down").waits[0].lookup = false;
  CHECK(error_of(s) ==
        "error: %l0.expert_down looks up %l0.choice.active_experts without a lookup after %l0.choice");
  s = schedule_of(two_layers());
  const auto slot = [&](const std::string& name) -> Slot& {
    for (TensorId t : s.program.tensors.ids())
      if (s.program.tensors[t].name == name) return s.slots[t.index];
    FAIL(name);
    return s.slots[0];
  };
  slot("l1.choice.expert").offset = slot("l0.choice.active_expert_rows").offset;
  CHECK(error_of(s) ==
        "error: %l0.choice.active_expert_rows and %l1.choice.expert share memory, but the first may be "
        "looked up until "
        "the step ends");
  s = schedule_of(two_layers());
  slot("l1.choice.expert").offset = slot("l0.choice.token").offset;
  CHECK(
      error_of(s) ==
      "error: %l0.choice.token and %l1.choice.expert share memory, but the first may be looked up until the "
      "step ends");
}

TEST_CASE("counts that hold for some routings only are refused") {
  Schedule s = schedule_of(two_layers());
  const auto expect = [&](const std::string& name) -> Expr& {
    for (Event& e : s.program.events.items)
      if (e.name == name) return e.expect;
    FAIL(name);
    return s.program.events.items[0].expect;
  };
  expect("l0.down_ready") = 4;  // 4 is right for a step of one token
  CHECK(error_of(s) ==
        "error: @l0.down_ready[] expects 4 notifications, 6 tasks notify it (at T = 64, B = 8, R = 64, q_len "
        "= [1, 1, 1, 1, 1, 1, 1, 57], kv_len = [3, 16, 4, 64, 7, 1, 8, 57], active_experts = 3, "
        "active_expert_rows = [64, 63, "
        "1])");
  s = schedule_of(two_layers());
  expect("l1.expert_down_ready") = 2;
  CHECK(
      error_of(s).starts_with("error: @l1.expert_down_ready[0] expects 2 notifications, 3 tasks notify it"));
}

TEST_CASE("routings of the proof are what tokens may choose") {
  const TaskProgram program = program_of(two_layers());
  const Symbols& symbols = program.symbols;
  std::set<int64_t> slots_of_max;
  int64_t max = 0;
  for (const std::vector<int64_t>& values : chosen_values(program)) {
    const auto value = [&](const char* name) { return values[find_symbol(symbols, name).index]; };
    const auto rows = values.begin() + value("active_expert_rows"), end = rows + value("active_experts");
    CHECK(std::accumulate(rows, end, int64_t{0}) == 2 * value("T"));
    CHECK(*std::min_element(rows, end) >= 1);
    CHECK(*std::max_element(rows, end) <= value("T"));
    CHECK(value("active_experts") <= 4);
    if (value("T") > max) slots_of_max.clear();
    max = std::max(max, value("T"));
    if (value("T") == max) slots_of_max.insert(value("active_experts"));
  }
  CHECK(max == 64);
  CHECK(slots_of_max == std::set<int64_t>{2, 3, 4});  // 2: equal choices, 3: one differs, 4: all experts
}

TEST_CASE("a look-up before what it looks up is a deadlock") {
  Schedule s = schedule_of(two_layers());
  for (std::vector<Segment>& stream : s.streams) {
    const auto find = [&](const char* name) {
      return std::find_if(stream.begin(), stream.end(),
                          [&](const Segment& g) { return s.program.grids[g.grid].name == name; });
    };
    if (find("l0.choice") != stream.end()) std::swap(*find("l0.choice"), *find("l0.gate_up"));
  }
  CHECK(
      error_of(s).starts_with("error: deadlock: %l0.gate_up[2, 0]..%l0.gate_up[2, 1] on worker 3 -stream-> "
                              "%l0.choice[] on worker 3 -notify-> @l0.gate_up_ready[] -wait-> "));
}

TEST_CASE("routes of one program have the same numbers of experts and choices") {
  const Result<OpGraph> graph = test::graph_of(two_layers());
  REQUIRE(graph.ok());
  OpGraph g = graph.value();
  for (Op& op : g.ops.items)
    if (op.kind == OpKind::kRoute && op.layer == 1) set_attr(op.attrs, "top_k", int64_t{1});
  const Result<TaskProgram> program = fuse(g);
  REQUIRE(!program.ok());
  CHECK(program.error().message.find(
            "route fits no task: an earlier route has other numbers of experts or choices") !=
        std::string::npos);
}

TEST_CASE("a stack of other experts than those of its choices is an error of the graph") {
  const Result<OpGraph> graph = test::graph_of(two_layers());
  REQUIRE(graph.ok());
  CHECK(verify(graph.value()).empty());
  OpGraph g = graph.value();
  const auto product = std::ranges::find(g.ops.items, OpKind::kExpertLinear, &Op::kind);
  Expr& experts = g.tensors[product->inputs[2]].shape[0];
  experts = experts + Expr(1);
  const std::vector<Error> errors = verify(g);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].message.find("V13") != std::string::npos);
  CHECK(errors[0].message.find("experts, expected ") != std::string::npos);
}

TEST_CASE("more experts or tasks than a step may have fit no task") {
  const Result<OpGraph> graph = test::graph_of(two_layers());
  REQUIRE(graph.ok());
  OpGraph g = graph.value();
  const auto route = std::ranges::find(g.ops.items, OpKind::kRoute, &Op::kind);
  g.tensors[route->inputs[0]].shape[1] = 513;
  Result<TaskProgram> program = fuse(g);
  REQUIRE(!program.ok());
  CHECK(program.error().message.find(" of 513 experts, at most 16 of 512 are supported") !=
        std::string::npos);
  g = graph.value();
  for (Op& op : g.ops.items)
    if (op.kind == OpKind::kLinear) g.tensors[op.inputs[1]].shape[0] = int64_t{1} << 30;
  program = fuse(g);
  REQUIRE(!program.ok());
  CHECK(program.error().message.find(" has more than 16777216 tasks") != std::string::npos);
}

TEST_CASE("experts that follow no route fit no task") {
  const Result<OpGraph> graph = test::graph_of(two_layers());
  REQUIRE(graph.ok());
  const auto error_with = [&](auto edit) {
    OpGraph g = graph.value();
    std::vector<TensorId> shares;
    for (Op& op : g.ops.items)
      if (op.kind == OpKind::kExpertSum) shares.push_back(op.inputs[1]);
    for (Op& op : g.ops.items)
      if (op.kind == OpKind::kExpertSum) edit(op, shares);
    const Result<TaskProgram> program = fuse(g);
    REQUIRE(!program.ok());
    return program.error().message;
  };
  for (const std::string& message :
       {error_with([](Op& op, auto&) { op.inputs[1] = op.inputs[0]; }),  // the shares are missing
        error_with([](Op& op, auto&) { op.inputs[0] = op.inputs[1]; }),  // the results are missing
        error_with([](Op& op, auto& shares) { op.inputs[1] = shares[shares[0] == op.inputs[1]]; })})
    CHECK(
        message.find(
            "expert_sum fits no task: its operands are not the results and routing weights of one choice") !=
        std::string::npos);
}

}  // namespace mkc
