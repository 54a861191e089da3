// Each bug that is put into the generated kernel on purpose must be caught.
#include "tests/stress/mutants.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <link.h>
#include <llvm/IR/LLVMContext.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>

#include "codegen/kernel_module.h"
#include "tests/apart.h"
#include "tests/stress/tiny_model.h"

namespace mkc::test {
namespace {

// The model has so many workers that some have no task of a grid. The next grid with the same event is then
// the first there to wait for it.
TinyModel small_model() {
  TinyModel model;
  model.shape.context = 320;
  model.workers = 5;
  return model;
}
// The model has so few tasks that some worker looks up twice in a row without one.
TinyModel small_experts() {
  TinyModel model = small_model();
  model.shape.family = "qwen3_moe";
  model.shape.experts = 5;
  model.shape.expert_ffn = 24;
  model.shape.layers = 2;
  model.workers = 17;
  return model;
}
// The steps cross from one KV tile into the next, differ in their product variants, and use each bank of
// counters twice.
RunOptions small_run() {
  RunOptions options;
  options.device.race = true;
  options.steps = {2, 33, 20, 1};
  options.first_position = 250;
  return options;
}

// Workers claim the tasks of this model.
TinyModel drawn_model() {
  TinyModel model = small_model();
  model.scheduler = Scheduler::kDynamic;
  model.task_ns = 1e6;
  return model;
}

bool is_caught(const Mutant& mutant, const std::string& error) {
  return std::any_of(mutant.caught.begin(), mutant.caught.end(), [&](const char* text) {
    return error.find(text == kCrash ? kWild : text) != std::string::npos || error == text;
  });
}

struct Range {
  uintptr_t begin, end;
};
std::vector<Range> loaded_code;     // of files; kernel code lies outside of it
constexpr int kKernelCrashed = 99;  // exit status

int add_code(dl_phdr_info* file, size_t, void*) {
  for (size_t i = 0; i < file->dlpi_phnum; ++i) {
    const auto& segment = file->dlpi_phdr[i];
    const uintptr_t begin = file->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
      loaded_code.push_back({begin, begin + segment.p_memsz});
  }
  return 0;
}

// Ends the process with kKernelCrashed if kernel code raised the signal, and by the signal otherwise.
void end_crashed(int number, siginfo_t*, void* context) {
  const auto at = static_cast<uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  if (std::ranges::none_of(loaded_code, [at](const Range& r) { return at >= r.begin && at < r.end; }))
    _exit(kKernelCrashed);
  signal(number, SIG_DFL);
  raise(number);
}

void tell_crashes_apart() {
  dl_iterate_phdr(add_code, nullptr);
  struct sigaction action{};
  action.sa_sigaction = end_crashed;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) sigaction(number, &action, nullptr);
}

// A mutant may run for two seconds and so many times the processor time of a run without a bug. One that
// loops over wild addresses takes any time.
constexpr double kTimesRight = 2;

// Right is the outcome of runs without a bug, and the most processor time that a mutant's run may take.
struct Right {
  Outcome outcome;
  uint32_t mutant_seconds = 0;
};

// Runs the kernel without a bug, in four orders.
Right run_right(const Compiled& compiled, const HostKernel& kernel, RunOptions options) {
  constexpr uint64_t seeds = 4;
  Right right;
  const std::clock_t begin = std::clock();
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    options.device.seed = seed;
    right.outcome = run(compiled, kernel, options);
    CHECK(right.outcome.error == "");
  }
  const double of_run = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / seeds;
  right.mutant_seconds = 2 + static_cast<uint32_t>(std::ceil(kTimesRight * of_run));
  return right;
}

// Returns what is wrong with work of a mutant, by the end of its process.
std::string error_of_end(const std::function<std::string()>& work, uint32_t seconds) {
  const ApartResult apart = run_apart([&] { return tell_crashes_apart(), work(); }, seconds);
  switch (apart.end) {
    case ApartResult::End::kReturned:
      return apart.text;
    case ApartResult::End::kLate:
      return fmt::format("late: no end after {} s of the processor", seconds);
    case ApartResult::End::kCrashed:
      break;
  }
  return apart.text == fmt::format("exit status {}", kKernelCrashed) ? kCrash : "a crash: " + apart.text;
}

// Returns what is wrong with a mutant's run. The run has a process of its own.
std::string error_apart(const Compiled& compiled, const HostKernel& kernel, const RunOptions& options,
                        const Right& right) {
  const auto work = [&] {
    const Outcome outcome = run(compiled, kernel, options);
    return outcome.error.empty() && outcome != right.outcome ? kWrong : outcome.error;
  };
  return error_of_end(work, right.mutant_seconds);
}

uint32_t selected = 0;  // number of the mutant that runs, from 1 on; 0: none

void check_caught(const Compiled& compiled, const HostKernel& kernel, const Mutant& mutant,
                  RunOptions options, const Right& right) {
  CAPTURE(mutant.name);
  options.device.disturbance = mutant.disturbance;
  // A mutant that may crash takes anything for an address. The first race ends its launch before that.
  if (std::ranges::find(mutant.caught, kCrash) != mutant.caught.end()) options.device.max_reports = 1;
  const uint64_t seeds = mutant.in_some_orders ? 32 : 2;
  bool caught = false;
  for (uint64_t seed = 0; seed < seeds && !(caught && mutant.in_some_orders); ++seed) {
    CAPTURE(seed);
    options.device.seed = seed;
    const std::string error = error_apart(compiled, kernel, options, right);
    CAPTURE(error);
    caught = is_caught(mutant, error);
    CHECK((caught || mutant.in_some_orders));
  }
  CHECK(caught);
}

void check_caught(const std::vector<std::vector<Mutant>>& groups, bool bulk_copy,
                  const TinyModel& model = small_model(), RunOptions options = small_run()) {
  const Compiled compiled(model);
  std::vector<Mutant> mutants;
  for (const auto& group : groups) mutants.insert(mutants.end(), group.begin(), group.end());
  std::vector<std::vector<SiteEdit>> changes;
  for (const Mutant& mutant : mutants) changes.push_back(mutant.edits);
  HostOptions host{.bulk_copy = bulk_copy, .race = true, .quick = true};
  host.edit = [&](llvm::Module& module) { apply_selectable(module, changes, &selected); };
  HostKernel kernel = compile_for_host(compiled.schedule, host);
  selected = 0;
  const Right right = run_right(compiled, kernel, options);
  kernel.entries.rules = nullptr;  // Declared regions would hide what else catches a bug.
  for (selected = 1; selected <= mutants.size(); ++selected)
    check_caught(compiled, kernel, mutants[selected - 1], options, right);
}

TEST_CASE("a run that is late or crashes outside of kernel code catches no mutant") {
  constexpr unsigned char kInvalid[] = {0x0f, 0x0b};  // ud2
  void* code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(code != MAP_FAILED);
  std::memcpy(code, kInvalid, sizeof kInvalid);
  const auto kernel = reinterpret_cast<void (*)()>(code);
  const auto error = [](const std::function<void()>& act) {
    return error_of_end([&] { return act(), std::string("returned"); }, 1);
  };
  CHECK(error([] {}) == "returned");
  CHECK(error([=] { kernel(); }) == kCrash);
  CHECK(error([] { std::abort(); }) == "a crash: signal 6");
  CHECK(error([] {
          for (volatile int i = 0;;) i = i + 1;
        }) == "late: no end after 1 s of the processor");
  const Mutant mutant{"", {}, {kCrash}};
  CHECK(is_caught(mutant, kCrash));
  CHECK(!is_caught(mutant, "a crash: signal 6"));
  CHECK(!is_caught(mutant, "late: no end after 1 s of the processor"));
  munmap(code, 4096);
}

TEST_CASE("a bug in the ring, in an event or inside a task is caught, and without one nothing is reported") {
  check_caught({ring_mutants(), segment_mutants(), bulk_copy_mutants(), event_mutants(), body_mutants(),
                fault_mutants()},
               true);
}

TEST_CASE("a bug around a warpgroup's product is caught") {
  TinyModel model = small_model();
  model.max_tokens = 80;
  RunOptions options = small_run();
  options.steps = {70};
  options.first_position = 0;
  check_caught({warpgroup_mutants()}, true, model, options);
}

TEST_CASE("a bug between two passes of a product is caught") {
  TinyModel model = small_model();
  model.max_tokens = 80;
  model.batch_invariant = true;
  RunOptions options = small_run();
  options.steps = {70};
  options.first_position = 0;
  check_caught({pass_mutants()}, true, model, options);
}

TEST_CASE("a bug in the ring filled by 16-byte copies is caught") {
  check_caught({ring_mutants(), async_copy_mutants()}, false);
}

TEST_CASE("a bug in a lookup, in a route or in an expert is caught") {
  check_caught({lookup_mutants()}, true, small_experts());
}

TEST_CASE("a bug between the steps of a launch is caught") {
  // Two requests go from one token to the next, and on from 40 rows. The loader waits for the step behind 40
  // rows.
  TinyModel model = small_model();
  model.max_requests = 2;
  RunOptions options = small_run();
  options.requests = 2;
  options.samples = 3;
  options.steps = {1, 20, 1};
  check_caught({step_mutants()}, true, model, options);
}

TEST_CASE("a wait or notification of any grid that is missing or wrong is caught") {
  // Seven workers spread the keys and values of both heads, so that a wait for one head's does not cover the
  // other's.
  TinyModel model = small_model();
  model.workers = 7;
  check_caught({site_mutants(Compiled(model).schedule)}, true, model);
}

TEST_CASE("a bug in drawing tasks or entering cells is caught") {
  const std::vector<Placement> placements = Compiled(drawn_model()).schedule.placements;
  REQUIRE(std::any_of(placements.begin(), placements.end(),
                      [](const Placement& p) { return p.kind == PlacementKind::kReady; }));
  RunOptions options = small_run();
  options.steps = {2, 33, 1};
  for (const bool bulk_copy : {true, false})
    check_caught({ticket_mutants()}, bulk_copy, drawn_model(), options);
}

}  // namespace
}  // namespace mkc::test
