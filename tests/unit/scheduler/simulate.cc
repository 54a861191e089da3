#include "scheduler/simulate/simulate.h"

#include <doctest/doctest.h>

#include <numeric>

#include "runtime/abi/packing.h"
#include "scheduler/machine/control_path.h"
#include "scheduler/place/place.h"
#include "scheduler/simulate/simulate_path.h"
#include "tests/unit/scheduler/programs.h"

namespace mkc {
namespace {

using doctest::Approx;
using test::product_sequence;

// Returns a machine of round figures. The stream has 100 bytes a ns, which one worker may take alone. Reads
// begin after 1000 ns, at the start and later. The end of a task takes 10 ns, a barrier 7 ns, a reduction 30
// ns. A notification takes 500 ns. The first operands of tasks that are no products take 40 ns.
Machine machine(uint32_t stages = 4) {
  Machine m;
  m.name = "test";
  m.target = "emulator";
  m.workers = 1;
  m.shared_bytes = 1 << 24;
  m.ring_stages = stages;
  m.l2_bytes = 1 << 25;
  m.l2_bytes_per_ns = 1e9;
  m.stream_bytes_per_ns = 100;
  m.cold_burst = {{1000, 1000 / 1010.0}};
  m.reduce_ns = 30;
  m.notify_ns = 500;
  m.barrier_ns = 7;
  m.fetch_ns = 40;
  m.task_ns = 10;
  m.poll_ns = 3;
  m.ticket_ns = 20;
  m.load_ns = 1000;
  m.worker_bytes_per_ns = 100;
  m.worker_l2_bytes_per_ns = m.shared_bytes_per_ns = 1e9;
  m.wgmma_bytes_per_ns = m.mma8_bytes_per_ns = m.mma16_bytes_per_ns = m.fma16_bytes_per_ns = 200;
  m.mma_per_ns = 1e9;
  m.attend_bytes_per_ns = 1e9;
  return m;
}

const double kDispatchNs = kDispatch.barriers * machine().barrier_ns;  // barriers alone take time

Simulation simulated(const TaskProgram& program, const Machine& m, uint32_t workers,
                     std::vector<int64_t> symbols = {1}, const SimulateOptions& options = {},
                     Scheduler scheduler = Scheduler::kStatic) {
  PlaceOptions how{workers};
  how.scheduler = scheduler;
  Result<Schedule> schedule = place(program, m, how);
  REQUIRE(schedule.ok());
  Result<Simulation> s = simulate(schedule.value(), m, std::move(symbols), options);
  REQUIRE_MESSAGE(s.ok(), s.error().message);
  CHECK(s.value().ns >= s.value().floor_ns);
  const double moved_ns =
      static_cast<double>(s.value().bytes + s.value().padding_bytes) / m.stream_bytes_per_ns;
  const double idle_ns = std::accumulate(s.value().idle_ns.begin(), s.value().idle_ns.end(), 0.0);
  CHECK(moved_ns + idle_ns == Approx(s.value().ns));
  uint64_t bytes = 0;
  for (const TaskTime& task : s.value().tasks) {
    CHECK(task.reached_ns <= task.begin_ns);
    CHECK(task.begin_ns <= task.ready_ns);
    CHECK(task.ready_ns <= task.worked_ns);
    CHECK(task.worked_ns <= task.end_ns);
    bytes += task.bytes;
  }
  CHECK(bytes == s.value().bytes);
  const PathTimes path = path_times(s.value(), program);
  double path_ns = path.signal_ns + path.start_ns + path.starved_ns + path.finish_ns;
  for (const auto& [body, ns] : path.work_ns) path_ns += ns;
  CHECK(path_ns == Approx(s.value().ns));
  return s.value();
}

constexpr double kTile = mkrt::kStageBytes;  // 16 rows x 512 columns of bf16
constexpr double kLoad = kTile / 100, kMultiply = kTile / 200;
constexpr double kEnd = 7 + 7;              // barriers of the sums and of the notification
constexpr double kEndOfMany = 30 + 10 + 7;  // of a product of more than 8 tokens

TEST_CASE("one tile takes the latency, its bytes, the product, the reduction and the task") {
  const Simulation s = simulated(product_sequence(1, 1, 512), machine(), 1);
  CHECK(s.ns == Approx(1000 + kLoad + kMultiply + kEnd));
  CHECK(s.bytes == 16384);
  CHECK(s.floor_ns == Approx(kLoad));
}

TEST_CASE("a claimed strip waits for its ticket, and its worker learns at the end that none is left") {
  const Simulation s = simulated(product_sequence(1, 1, 512), machine(), 1, {1}, {}, Scheduler::kDynamic);
  CHECK(s.ns == Approx(20 + 1000 + kLoad + kMultiply + kEnd + 7));
}

TEST_CASE("a dependent grid's strips are claimed ahead of its event") {
  const double first = 20 + 1000 + kLoad + kMultiply + kEnd;
  CHECK(simulated(product_sequence(2, 1, 512), machine(), 1, {1}, {}, Scheduler::kDynamic).ns ==
        Approx(first + 500 + 7 + kMultiply + kEnd + 7));
}

TEST_CASE("every task is claimed once, whoever runs it") {
  const TaskProgram program = test::model_program({.layers = 3});
  for (const uint32_t workers : {1u, 2u, 7u}) {
    const Simulation s = simulated(program, machine(), workers, {3, 50}, {}, Scheduler::kDynamic);
    for (const TaskTime& task : s.tasks) CHECK(task.end_ns > 0);
    CHECK(s.bytes == simulated(program, machine(), workers, {3, 50}).bytes);
  }
}

TEST_CASE("tiles that the ring holds arrive one after the other, and are multiplied meanwhile") {
  CHECK(simulated(product_sequence(1, 1, 4 * 512), machine(), 1).ns ==
        Approx(1000 + 4 * kLoad + kMultiply + kEnd));
}

TEST_CASE("with one stage each tile waits for the latency anew") {
  CHECK(simulated(product_sequence(1, 1, 4 * 512), machine(1), 1).ns ==
        Approx(4 * (1000 + kLoad + kMultiply) + kEnd));
}

TEST_CASE("a dependent grid's weights come ahead, so that it costs a hop and its product") {
  const double first = 1000 + kLoad + kMultiply + kEnd;
  CHECK(simulated(product_sequence(2, 1, 512), machine(), 1).ns ==
        Approx(first + 500 + 7 + kMultiply + kEnd));
  // A second worker prefetches as well, and waits for the first. The two tiles then share the stream.
  CHECK(simulated(product_sequence(2, 1, 512), machine(), 2).ns ==
        Approx(first + kLoad + 500 + 7 + kMultiply + kEnd));
  // A ring of one stage loads the second tile once the first product releases the stage. This tile arrives
  // after the hop.
  CHECK(simulated(product_sequence(2, 1, 512), machine(1), 1).ns ==
        Approx(1000 + kLoad + kMultiply + 1000 + kLoad + kMultiply + kEnd));
}

TEST_CASE("without run-ahead a dependent grid's weights are asked for after the hop") {
  const double first = kDispatchNs + 1000 + kLoad + kMultiply + kEnd;
  CHECK(simulated(product_sequence(2, 1, 512), machine(), 1, {1}, {.run_ahead = false}).ns ==
        Approx(first + 500 + 7 + 1000 + kLoad + kMultiply + kEnd));
}

TEST_CASE("without fusion what rides in a task costs a hop before it or behind it") {
  const auto took = [](const TaskProgram& p, bool fused) {
    return simulated(p, machine(), 2, {1}, {.fused = fused}).ns;
  };
  TaskProgram p = product_sequence(2, 1, 512);
  CHECK(took(p, false) == took(p, true));
  set_attr(p.grids.items[0].attrs, "gate", int64_t{1});
  const double gated = took(p, true), hop = hop_ns(machine());
  CHECK(took(p, false) == Approx(gated + hop));
  Access norm = p.grids.items[1].reads[0];
  norm.role = "norm";
  p.grids.items[1].reads.push_back(norm);
  CHECK(took(p, false) == Approx(took(p, true) + 2 * hop));
}

TEST_CASE("a loader that has to look up what to bring waits for the notification") {
  TaskProgram p = product_sequence(2, 1, 512);
  p.grids.items[1].waits.push_back({EventId{0}, {}, true});
  const double first = 1000 + kLoad + kMultiply + kEnd;
  for (uint32_t workers : {1u, 2u}) {
    const Simulation s = simulated(p, machine(), workers);
    CHECK(s.ns == Approx(first + 500 + 1000 + kLoad + kMultiply + kEnd));
    CHECK(s.idle_ns[static_cast<size_t>(IdleCause::kLookup)] > 290);
  }
}

TEST_CASE("the critical path leads from the last task over those it stood still for") {
  const Simulation s = simulated(product_sequence(3, 1, 512), machine(), 2);
  const std::vector<PathTask> path = critical_path(s);
  REQUIRE(path.size() == 3);
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK(path[i].task == i);
    CHECK(path[i].by_event == (i > 0));
  }
}

TEST_CASE("the ceiling is shared by the workers that read, and others cost nothing") {
  CHECK(simulated(product_sequence(1, 3, 512), machine(), 8).ns ==
        Approx(1000 + 3 * kLoad + kMultiply + kEnd));
}

TEST_CASE("one worker takes at most its own rate, and what is lost to that is told") {
  Machine m = machine();
  m.worker_bytes_per_ns = 20;
  const Simulation s = simulated(product_sequence(1, 1, 512), m, 1);
  CHECK(s.ns == Approx(1000 + kTile / 20 + kMultiply + kEnd));
  CHECK(s.idle_ns[static_cast<size_t>(IdleCause::kWorker)] == Approx(kTile / 20 - kLoad));
}

TEST_CASE("consumers that are slower than the stream decide, and fill the ring") {
  Machine m = machine();
  m.mma8_bytes_per_ns = 10;
  const Simulation s = simulated(product_sequence(1, 1, 20 * 512), m, 1);
  CHECK(s.ns == Approx(1000 + kLoad + 20 * kTile / 10 + kEnd));
  CHECK(s.idle_ns[static_cast<size_t>(IdleCause::kConsumers)] > 0.5 * s.ns);
}

TEST_CASE("strips of a block share activations, a reduction and an end, those of a segment a wait") {
  Machine m = machine();
  m.activations_ns = 100;
  m.mma8_bytes_per_ns = 50;
  m.l2_ns = 70;  // latency of a block's first tile: later loads overlap with products
  const double block = 4 * kTile / 50 + 100 + 70 + kEnd;
  CHECK(simulated(product_sequence(1, 4, 512), m, 1).ns == Approx(1000 + kLoad + block));
  CHECK(simulated(product_sequence(1, 4, 512), m, 1, {8}).ns == Approx(1000 + kLoad + block));
  // The last grid notifies nothing, so each of its strips waits.
  const double hop = 500 + 7, polls = 3 * (3 + 7);
  CHECK(simulated(product_sequence(3, 4, 512), m, 1).ns ==
        Approx(1000 + kLoad + block + hop + block + hop + block + polls));
}

TEST_CASE("of many tokens each chain's part of a block is multiplied, or comes through shared memory") {
  Machine m = machine();
  m.activations_ns = 10;
  m.l2_ns = 70;
  const auto took = [&](int64_t tokens) { return simulated(product_sequence(1, 4, 512), m, 1, {tokens}).ns; };
  // The block takes 8 K slices of 64 columns of 4 strips. The epilogues of 4 strips of 33 rows take two
  // reductions.
  const double rest = 1000 + kLoad + 70 + 8 * (10 + 7) + kEndOfMany + m.reduce_ns;
  m.mma_per_ns = 1600;
  CHECK(took(33) == Approx(rest + 8 * 64 * 64 * 64 / 1600.0));
  m.mma_per_ns = 1e9;
  m.shared_bytes_per_ns = 160;
  // Shared memory takes each weight once and gives it to 4 groups of warps. Each 128-byte row of x comes
  // once, and goes to 2 warps.
  CHECK(took(33) == Approx(rest + 8 * (4 * 2048 * 5 + 33 * 128 * 3) / 160.0));
  m.shared_bytes_per_ns = 1e9;
  m.l2_ns = 3000;
  // The first load of a segment's dispatch takes longer than the first tile.
  const double later = 3000 + kDispatchNs - (1000 + kLoad);
  CHECK(took(33) == Approx(rest + later - 8 * (10 + 7) - 70 + 9 * 3000));
}

TEST_CASE("of some tokens a tile of a block takes latencies, and strips are finished one by one") {
  Machine m = machine();
  m.activations_ns = 40;
  m.mma16_bytes_per_ns = 50;
  m.mma_per_ns = 25 * 16;
  const auto took = [&](int64_t tokens) { return simulated(product_sequence(1, 4, 512), m, 1, {tokens}).ns; };
  const double rest = 1000 + kLoad + kEndOfMany + 3 * m.reduce_ns;
  m.l2_ns = 1;
  CHECK(took(9) == Approx(rest + 1 + 4 * kTile / 50 + 40));
  CHECK(took(16) == took(9));
  const auto of_two = [&](int64_t tokens) {
    return simulated(product_sequence(1, 2, 512), m, 1, {tokens}).ns;
  };
  const double rest_of_two = 1000 + kLoad + kEndOfMany + m.reduce_ns;
  CHECK(of_two(17) == Approx(rest_of_two + 1 + 2 * kTile / 25 + 40));
  m.l2_ns = 3000;
  const double later = 3000 + kDispatchNs - (1000 + kLoad);  // the first load of a segment's dispatch
  CHECK(took(16) == Approx(rest + later + 3000 + 2 * 3000));
  CHECK(of_two(32) == Approx(rest_of_two + later + 3000 + 4 * 3000));
}

TEST_CASE("a step that moves nothing has a floor of 0") {
  const TaskProgram model = test::model_program();
  TaskProgram p;
  p.symbols = model.symbols;
  p.tensors = model.tensors;
  p.grids.add(model.grids[test::find_grid(model, "sample")]);
  p.grids.items[0].waits.clear();
  const Simulation s = simulated(p, machine(), 1, {1, 1});
  CHECK(s.bytes == 0);
  CHECK(s.floor_ns == 0);
  CHECK(s.ns == Approx(kDispatchNs + 40 + 10 + 7));
}

TEST_CASE("the loader takes a while for each copy, so that copies come no faster than it issues them") {
  Machine m = machine(16);
  m.bulk_copy = true;
  m.instruction_ns = 10;
  const double issue = path_ns(m, kNextBulkCopy);
  REQUIRE(issue > kLoad);
  const Simulation s = simulated(product_sequence(1, 1, 16 * 512), m, 1);
  double end = 0;
  for (const CodePath& path : {kFirstProduct, kProductSums, kEpilogue, kProductNotify})
    end += path_ns(m, path);
  CHECK(s.ns == Approx(1000 + 16 * issue + kLoad + kMultiply + end));
  CHECK(s.idle_ns[static_cast<size_t>(IdleCause::kLatency)] > 0);
}

TEST_CASE("a notification waits for the stores before it") {
  Machine m = machine();
  const double before = simulated(product_sequence(2, 1, 512), m, 1).ns;
  m.store_ns = 123;
  CHECK(simulated(product_sequence(2, 1, 512), m, 1).ns == Approx(before + 123));
}

TEST_CASE("what leads from a notification to the first load is taken once a segment, the rest once a block") {
  Machine m = machine();
  m.bulk_copy = true;
  const double before = simulated(product_sequence(3, 8, 512), m, 1).ns;
  m.instruction_ns = 0.5;
  // The dispatches of the last two grids end within their waits.
  const double dispatch = kDispatch.instructions * 0.5, start = kProductStart.instructions * 0.5;
  const double block = (kFirstProduct.instructions + kProductSums.instructions + kEpilogue.instructions +
                        kProductNotify.instructions) *
                       0.5;
  CHECK(simulated(product_sequence(3, 8, 512), m, 1).ns <=
        before + dispatch + 3 * start + 6 * block + path_ns(m, kNextBulkCopy));
  CHECK(simulated(product_sequence(3, 8, 512), m, 1).ns >= before + start + 2 * block);
}

TEST_CASE("code that does not fit is fetched at the start of each segment") {
  Machine m = machine();
  m.code_bytes_per_ns = 4;
  m.code_cache_bytes = kBodyCodeBytes * 2;  // the code of products and of the loader
  const double fits = simulated(product_sequence(3, 1, 512), m, 1).ns;
  CHECK(fits == simulated(product_sequence(3, 1, 512), machine(), 1).ns);
  m.code_cache_bytes -= 1;
  CHECK(simulated(product_sequence(3, 1, 512), m, 1).ns > fits);
}

TEST_CASE("long hops make up the whole step") {
  Machine m = machine();
  m.notify_ns = 1e9;
  CHECK(simulated(product_sequence(5, 3, 512), m, 2).ns == Approx(4e9).epsilon(0.001));
}

TEST_CASE("further groups of tokens bring the strips from L2 again") {
  const Simulation one = simulated(product_sequence(1, 4, 4096), machine(), 2, {64});
  const Simulation two = simulated(product_sequence(1, 4, 4096), machine(), 2, {65});
  CHECK(two.bytes == one.bytes);
  CHECK(two.ns > one.ns);
  CHECK(one.idle_ns[static_cast<size_t>(IdleCause::kReread)] == 0);
  CHECK(two.idle_ns[static_cast<size_t>(IdleCause::kReread)] > 0);
}

TEST_CASE("a cold burst takes what was measured for its size") {
  Machine m = load_machine("h100").value();
  m.mma8_bytes_per_ns = m.l2_bytes_per_ns = m.worker_l2_bytes_per_ns = 1e6;
  for (int64_t strips : {132 * 2, 132 * 8, 132 * 32}) {
    const Simulation s = simulated(product_sequence(1, strips, 2048), m, 132);
    CHECK(s.ns == Approx(burst_ns(m, static_cast<double>(s.bytes))).epsilon(0.15));
  }
}

TEST_CASE("a step moves all weights, the keys and values before it, and the embeddings of its tokens") {
  const test::ModelShape shape{.layers = 3, .vocab = 169};
  const TaskProgram p = test::model_program(shape);
  const int64_t tokens = 3, kv_len = 40;
  uint64_t bytes =
      static_cast<uint64_t>(shape.layers * 2 * shape.kv_heads * shape.head_dim * 2 * (kv_len - tokens));
  for (const TaskGrid& grid : p.grids)
    for (const Access& read : grid.reads) {
      const Tensor& t = p.tensors[read.tensor];
      if (read.stream && t.kind == TensorKind::kWeight)
        bytes += static_cast<uint64_t>(evaluate(t.shape[0], {}) * evaluate(t.shape[1], {}) * 2);
      if (read.role == "table") bytes += static_cast<uint64_t>(tokens * evaluate(t.shape[1], {}) * 2);
    }
  CHECK(simulated(p, machine(), 3, {tokens, kv_len}).bytes == bytes);
}

TEST_CASE("keys and values of earlier positions come ahead, as weights do") {
  const TaskProgram p = test::model_program({});
  const auto starved_ns = [&](bool run_ahead) {
    double ns = 0;
    for (const TaskTime& task : simulated(p, machine(), 3, {1, 60}, {.run_ahead = run_ahead}).tasks)
      if (p.grids[task.grid].body == BodyKind::kAttend) ns += task.starved_ns;
    return ns;
  };
  CHECK(starved_ns(true) == 0);
  CHECK(starved_ns(false) > machine().load_ns);
}

TEST_CASE("a deeper ring is never slower, a longer hop never faster") {
  const TaskProgram model = test::model_program({.hidden = 1024, .feed_forward = 2048});
  const TaskProgram products = product_sequence(6, 20, 2048);
  for (uint32_t workers : {1u, 3u, 8u}) {
    CAPTURE(workers);
    double model_ns = 1e18, products_ns = 1e18;
    for (uint32_t stages : {1, 2, 3, 4, 8, 12, 24}) {
      CAPTURE(stages);
      const double with_ring = simulated(model, machine(stages), workers, {1, 60}).ns;
      const double with_ring_2 = simulated(products, machine(stages), workers).ns;
      CHECK(with_ring <= model_ns * 1.0000001);
      CHECK(with_ring_2 <= products_ns * 1.0000001);
      model_ns = with_ring, products_ns = with_ring_2;
    }
    model_ns = products_ns = 0;
    for (double notify_ns : {1, 100, 300, 1000, 3000, 10000}) {
      CAPTURE(notify_ns);
      Machine m = machine();
      m.notify_ns = notify_ns;
      const double with_hop = simulated(model, m, workers, {1, 60}).ns;
      const double with_hop_2 = simulated(products, m, workers).ns;
      // Copies that a worker asks for earlier take bandwidth from others, which may end the step a little
      // later.
      CHECK(with_hop >= model_ns * 0.999);
      CHECK(with_hop_2 >= products_ns * 0.999);
      model_ns = with_hop, products_ns = with_hop_2;
    }
  }
}

}  // namespace
}  // namespace mkc
