// Session::State is what a session holds. session_open.cc makes it, and session.cc runs steps with it.
#pragma once

#include <array>

#include "runtime/session/kept_weights.h"
#include "runtime/session/session.h"
#include "runtime/session/step_memory.h"

namespace mkrt {

struct Session::State {
  Manifest manifest;
  WeightsReport weights;
  Device* device = nullptr;
  SessionOptions options;
  std::vector<uint64_t> owned, cache_memory;  // device memory
  MkSession session{};
  uint64_t session_at = 0;
  uint64_t scales_at = 0;                      // float[caches][heads]; 0: the caches have none
  std::array<StepMemory, kMaxUnderWay> steps;  // used in turn
  uint64_t taken = 0;                          // launches that have used `steps`
  StepMemory captured;                         // for captured graphs
  std::array<StepMemory*, kMaxUnderWay> under_way{};
  uint64_t begun = 0, ended = 0;      // launches
  bool several_steps = false;         // in the newest launch
  std::vector<TracedRequest> traced;  // of the newest launch, if the kernel is traced
  StepResult own_result;              // for the session's own sequence
  std::vector<uint8_t> sampled;       // by request of the newest launch: 1 if it sampled one token
  const ManifestTensor *logits = nullptr, *next = nullptr;
  BatchLimits limits;
  CacheSpace cache;
  PagesSeen seen;
  std::vector<float> scored_logits;  // of one row
  std::vector<int32_t> all_pages;    // 0, 1, …: for the session's own sequence
  int64_t position = 0;
  uint32_t serial = 0;  // of the next launch's first step; a launch of several steps counts when it ends
  bool faulted = false;

  State(Device& on, const SessionOptions& with) : device(&on), options(with) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    for (; ended != begun; ++ended) (void)under_way[ended % kMaxUnderWay]->wait(options.stream);
    for (const uint64_t address : owned) device->release(address);
    for (const uint64_t address : cache_memory) device->release(address);
  }

  // Allocates memory that lives as long as the session.
  Status allocate(uint64_t bytes, uint64_t& address) {
    const Result<uint64_t> got = device->allocate(bytes);
    if (!got.ok()) return got.error();
    owned.push_back(address = got.value());
    return {};
  }

  // Writes, and waits for this and all earlier writes, so that a launch on any stream sees them.
  Status settle(uint64_t to, std::span<const std::byte> from) {
    Status status = device->write(to, from);
    return status.ok() ? device->wait_for_stream(0) : status;
  }

  Status find_names();
  // LoadWeight loads one weight to its address.
  using LoadWeight = std::function<Status(const ManifestWeight& weight, uint64_t to)>;
  Status load_weights(const LoadWeight& load);
  Status check_room() const;                    // for weights that no file keeps
  Status fill_weights(const LoadWeight& load);  // allocates, and loads
  Status load_checkpoint(const Checkpoint& checkpoint);
  Status find_weights(const KeptKey& key, const Checkpoint& checkpoint);
  Status pack_weights(const std::optional<KeptKey>& key, const Checkpoint& checkpoint);
  std::optional<KeptFile> make_kept_file(const KeptKey& key);
  void note_kept(const KeptKey& key, const Status& status);
  Status hold(const MappedFile& file, uint64_t arena_at);
  void warn(const Error& error, const char* consequence);
  Status open(const Artefact& artefact, const std::function<Status()>& fill_weights);
  Status load_plan(std::span<const std::byte> plan);
  Status make_scales();
  Status make_cache(const CacheOptions& options);
  void take_cache(CacheSpace space, uint64_t table);
  Status make_arenas();
  Status make_step();
  MkStep step_of(const Batch& batch);
  Status check_step(const Batch& batch);
  Status begin(const Batch& batch);
  void has_begun(StepMemory& step, const Batch& batch);
  Status end(StepResult& result);
  Status score(const Batch& batch, StepResult& result);
  uint64_t next_at() const { return session.workspace + next->offset; }
  uint64_t logits_at() const { return session.workspace + logits->offset; }
};

}  // namespace mkrt
