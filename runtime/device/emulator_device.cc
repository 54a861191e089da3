#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <optional>

#include "runtime/artefact/plan.h"
#include "runtime/device/container_limits.h"
#include "runtime/device/device.h"
#include "runtime/emulator/fiber.h"
#include "runtime/emulator/spoil.h"
#include "runtime/emulator/workspace.h"

namespace mkrt {
namespace {

constexpr size_t kAlignment = 256;

struct Freed {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(kAlignment)); }
};

// Returns "%name[3, 17]" for the element at a byte offset from the tensor's first element.
std::string element_of(const ManifestTensor& t, uint64_t offset) {
  uint64_t element = offset / element_bytes(t.element);
  std::string text;
  for (size_t d = t.shape.size(); d-- > 0;) {
    const uint64_t index = d == 0 ? element : element % t.shape[d];
    text = fmt::format("{}{}{}", index, text.empty() ? "" : ", ", text);
    element /= std::max<uint64_t>(1, t.shape[d]);
  }
  return fmt::format("%{}[{}]", t.name, text);
}

class EmulatorDevice final : public Device {
 public:
  EmulatorDevice(StepKernels kernels, const EmulatorDeviceOptions& options,
                 std::function<std::string(uint32_t)> site)
      : kernels_(std::move(kernels)), options_(options), workspace_(kernels_) {
    names_.site = std::move(site);
    names_.grid = [this](uint32_t grid) {
      return grid < manifest_.grids.size() ? manifest_.grids[grid].name : std::string();
    };
    names_.tensor = [this](uint64_t address) { return tensor_at(address); };
  }

  std::string name() const override { return "emulator"; }
  // The memory is that of the host.
  uint64_t memory_bytes() const override { return memory_within({}); }
  ContainerLimits limits() const override { return container_limits(); }

  Result<uint64_t> allocate(uint64_t bytes) override {
    const size_t size = std::max<uint64_t>(1, bytes);
    auto* at = static_cast<std::byte*>(::operator new[](size, std::align_val_t(kAlignment), std::nothrow));
    if (!at)
      return Error{fmt::format("emulator: error: no memory for {} bytes", bytes), ErrorKind::kNoMemory};
    spoil(at, size);
    const auto address = reinterpret_cast<uint64_t>(at);
    blocks_.emplace(address, Block{std::unique_ptr<std::byte[], Freed>(at), bytes});
    return address;
  }
  void release(uint64_t address) override { blocks_.erase(address); }

  Status write(uint64_t to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(reinterpret_cast<void*>(to), from.data(), from.size());
    return {};
  }
  Status read(std::span<std::byte> to, uint64_t from) override {
    if (!to.empty()) std::memcpy(to.data(), reinterpret_cast<const void*>(from), to.size());
    return {};
  }
  Status clear(uint64_t at, uint64_t bytes) override {
    std::memset(reinterpret_cast<void*>(at), 0, bytes);
    return {};
  }

  Status load(const Artefact& artefact) override {
    if (loaded() && manifest_ != artefact.manifest)
      return has_other_kernel(name(), manifest_, artefact.manifest);
    if (artefact.manifest.launches.empty() != (kernels_.step != nullptr))
      return Error{fmt::format("emulator: error: the artefact has {}, the kernels given are for {}",
                               artefact.manifest.launches.empty() ? "one kernel" : "a kernel a grid",
                               kernels_.step ? "one" : "its grids")};
    launch_kinds_ = launch_kinds(artefact.manifest);
    for (const uint32_t kind : launch_kinds_)
      if (kind >= kernels_.grids.size() || !kernels_.grids[kind])
        return Error{fmt::format("emulator: error: no kernel for grids of kind {}", kind)};
    manifest_ = artefact.manifest;
    return {};
  }
  bool loaded() const override { return manifest_.workers != 0; }
  void unload() override { manifest_ = {}; }

  // One warp packs: making more fibers takes longer than most weights take to pack.
  Status pack(uint64_t pack) override {
    if (!kernels_.pack) return Error{"emulator: error: the kernels given lack the one that packs weights"};
    EmulatorOptions options = launch_options();
    options.workers = 1;
    options.threads_per_worker = 32;
    options.shared_bytes = 0;
    return run(
        [&](const MkSession*, const MkStep*) {
          kernels_.pack(reinterpret_cast<const MkPack*>(pack), options.workers, options.threads_per_worker);
        },
        nullptr, options);
  }

  Status launch(uint64_t /*stream*/, uint64_t session, uint64_t step, uint32_t steps) override {
    session_ = reinterpret_cast<const MkSession*>(session);
    const auto* with = reinterpret_cast<const MkStep*>(step);
    step_ = with;
    steps_begun_ = 0;
    wrong_count_ = {};
    if (kernels_.step) {
      begin_step();
      if (Status status = run(kernels_.step, with, step_options()); !status.ok()) return status;
      end_step();
      return wrong_count_;
    }
    for (uint32_t i = 0; i < steps; ++i) {
      if (with->begun != kLaunchOver) begin_step();
      if (Status status = run_grids(with); !status.ok()) return status;
      end_step();
    }
    return wrong_count_;
  }

 private:
  void begin_step() {
    workspace_.begin_step(reinterpret_cast<void*>(session_->workspace), manifest_.workspace_bytes);
    if (kernels_.rules) kernels_.rules->begin_step(*session_, *step_);
    ++steps_begun_;
    runs_.clear();
    if (kernels_.counts) given_ = given_of(*step_);
  }

  // Compares the counters of the newest step with the schedule, once for each step. Nothing is compared after
  // a fault: waits then fall through, and counters may hold anything.
  void end_step() {
    if (!given_ || !wrong_count_.ok() || reinterpret_cast<const MkFault*>(session_->fault)->state != 0)
      return;
    const StepCounts expected = kernels_.counts(*given_, workspace_.looked_up());
    given_.reset();
    const uint32_t step = steps_begun_ - 1, cells = session_->event_cells;
    const auto* bank =
        reinterpret_cast<const uint32_t*>(session_->counters) + (step_->serial + step) % 2 * cells;
    if (const std::optional<WrongCount> wrong = find_wrong_count(expected, {bank, cells}))
      return end_with(wrong->found, "in " + counter_name(wrong->counter), wrong->expected);
    // Workers do not arrive at the end of a launch's last step.
    const uint32_t arrivals = session_->workers * std::min(steps_begun_, step_->steps - 1);
    if (step_->arrived != arrivals) return end_with(step_->arrived, "arrivals of workers", arrivals);
    if (const std::optional<TaskRuns::Wrong> wrong = runs_.find_wrong(expected.tasks))
      end_with(wrong->runs,
               fmt::format("runs of task {}[{}]", manifest_.grids[wrong->grid].name, wrong->task),
               wrong->expected);
  }

  void end_with(uint32_t found, const std::string& what, uint32_t expected) {
    wrong_count_ = Error{fmt::format("emulator: error: step {} of the launch ended with {} {}, expected {}",
                                     steps_begun_ - 1, found, what, expected)};
  }

  std::string counter_name(uint32_t counter) const {
    for (const ManifestEvent& e : manifest_.events)
      if (counter >= e.first_cell && counter - e.first_cell < e.cells)
        return fmt::format("event {}[{}]", e.name, counter - e.first_cell);
    for (const ManifestGrid& g : manifest_.grids)
      if (g.tickets == counter &&
          (g.placement == GridPlacement::kQueue || g.placement == GridPlacement::kReady))
        return fmt::format("the tickets of grid {}", g.name);
    return fmt::format("counter {}", counter);
  }

  Status run_grids(const MkStep* step) {
    for (size_t i = 0; i < manifest_.launches.size(); ++i) {
      const GridEntry entry = kernels_.grids[launch_kinds_[i]];
      const uint32_t grid = manifest_.launches[i];
      const auto kernel = [&](const MkSession* s, const MkStep* t) { entry(s, t, grid); };
      if (Status status = run(kernel, step, step_options()); !status.ok()) return status;
    }
    return {};
  }

  EmulatorOptions step_options() {
    EmulatorOptions options = launch_options();
    if (options.race) options.rules = kernels_.rules.get();
    if (launches_++ == options_.disturbance.launch) options.disturbance = options_.disturbance;
    if (kernels_.step) {
      options.after_step = [this] { end_step(); };
      options.before_step = [this] { begin_step(); };
    }
    options.before_task = [this](uint32_t grid) { workspace_.begin_task(grid); };
    if (kernels_.counts)
      options.after_tasks = [this](uint32_t grid, uint32_t first, uint32_t count) {
        runs_.add(grid, first, count);
      };
    return options;
  }

  EmulatorOptions launch_options() {
    EmulatorOptions options;
    options.workers = manifest_.workers;
    options.threads_per_worker = manifest_.threads;
    options.shared_bytes = manifest_.shared_bytes;
    options.seed = options_.seed;
    options.os_threads = options_.os_threads;
    options.race = options_.race;
    options.max_reports = options_.max_reports;
    options.stacks = &stacks_;
    return options;
  }

  Status run(const KernelCall& kernel, const MkStep* step, EmulatorOptions options) {
    std::vector<RaceReport> races;
    Disturbed seen;
    if (options_.disturbed && step) options.disturbance.seen = &seen;
    const Result<EmulatorStats> ran = emulate(kernel, session_, step, options, &names_, &races);
    if (options_.disturbed && step) options_.disturbed->push_back(seen);
    if (!ran.ok()) return ran.error();
    if (races.empty()) return {};
    std::string text = fmt::format("emulator: error: {} races", races.size());
    for (const RaceReport& race : races) text += "\n  " + race.message;
    return Error{text};
  }

  std::string tensor_at(uint64_t address) const {
    if (!session_) return {};
    for (const auto* tensors : {&manifest_.tensors, &manifest_.outputs})
      for (const ManifestTensor& t : *tensors) {
        const uint64_t begin = session_->workspace + t.offset;
        if (address >= begin && address - begin < t.bytes) return element_of(t, address - begin);
      }
    if (std::string name = cache_at(address); !name.empty()) return name;
    for (const ManifestWeight& w : manifest_.weights) {
      const uint64_t begin = session_->weights + w.offset;
      if (address >= begin && address - begin < w.bytes)
        return fmt::format("%{} + {} bytes", w.name, address - begin);
    }
    return {};
  }

  // Returns "%l0.k_cache[page 3, position 5, head 1]", or "" for addresses outside the caches.
  std::string cache_at(uint64_t address) const {
    const auto block = blocks_.upper_bound(address);
    if (block == blocks_.begin()) return {};
    const uint64_t block_begin = std::prev(block)->first,
                   block_end = block_begin + std::prev(block)->second.bytes;
    const auto* caches = reinterpret_cast<const MkCache*>(session_->caches);
    for (size_t i = 0; i < manifest_.caches.size(); ++i) {
      const ManifestCache& c = manifest_.caches[i];
      const uint64_t base = caches[i].base;
      if (base < block_begin || base > address || address >= block_end) continue;
      const uint64_t in_page = (address - base) % session_->page_stride;
      const bool heads_inside = session_->head_stride <= session_->position_stride;
      const uint64_t outer = heads_inside ? session_->position_stride : session_->head_stride;
      const uint64_t inner = heads_inside ? session_->head_stride : session_->position_stride;
      const uint64_t at_outer = in_page / outer, at_inner = in_page % outer / inner;
      if (in_page % outer % inner >= c.head_dim * element_bytes(c.element)) continue;  // another cache's
      return fmt::format("%{}[page {}, position {}, head {}]", c.name,
                         (address - base) / session_->page_stride, heads_inside ? at_outer : at_inner,
                         heads_inside ? at_inner : at_outer);
    }
    return {};
  }

  struct Block {
    std::unique_ptr<std::byte[], Freed> memory;
    uint64_t bytes;
  };

  StepKernels kernels_;
  EmulatorDeviceOptions options_;
  emulator::Workspace workspace_;
  emulator::StackPool stacks_;
  EmulatorNames names_;
  Manifest manifest_;
  std::vector<uint32_t> launch_kinds_;
  const MkSession* session_ = nullptr;
  const MkStep* step_ = nullptr;    // of the launch
  uint32_t steps_begun_ = 0;        // in the launch
  std::optional<StepGiven> given_;  // of the current step, if its counters are checked
  TaskRuns runs_;                   // of the current step
  uint32_t launches_ = 0;
  Status wrong_count_;                // of the launch's first step with a wrong counter
  std::map<uint64_t, Block> blocks_;  // by address
};

}  // namespace

Error has_other_kernel(const std::string& device, const Manifest& loaded, const Manifest& wanted) {
  constexpr std::pair<const char*, std::string Manifest::*> kHashes[] = {
      {"schedule", &Manifest::schedule_hash}, {"code", &Manifest::code_seal}, {"seal", &Manifest::seal}};
  for (const auto& [what, hash] : kHashes)
    if (loaded.*hash != wanted.*hash)
      return {fmt::format("{}: error: has the kernel of {} {} loaded, not {}: open another device for it",
                          device, what, loaded.*hash, wanted.*hash)};
  return {fmt::format("{}: error: has the kernel of another manifest loaded: open another device for it",
                      device)};
}

std::unique_ptr<Device> open_emulator(StepKernels kernels, const EmulatorDeviceOptions& options,
                                      std::function<std::string(uint32_t)> site) {
  return std::make_unique<EmulatorDevice>(std::move(kernels), options, std::move(site));
}

}  // namespace mkrt
