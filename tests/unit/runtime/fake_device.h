// This header has a device that needs no compiler, and a model for it.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "runtime/artefact/plan.h"
#include "runtime/session/session.h"
#include "tests/unit/runtime/made_artefact.h"

namespace mkrt::test {

constexpr uint64_t kVocab = 10, kTokens = 4, kContext = 12;

// FakeDevice runs host code as its kernel. The token after t at position p is (t + p) mod 10. The logits say
// so, and sample() takes them.
struct FakeDevice final : Device {
  std::vector<std::vector<std::byte>> blocks;
  std::vector<MkStep> steps;
  std::vector<int32_t> lengths;  // kv_len of the first request, for each step
  std::vector<int32_t> pages;    // first page of the last step
  MkSession session{};
  MkFault fault{};
  uint32_t counted = 1;           // sampled tokens that the kernel reports
  int32_t off_by = 0;             // added to each id that the kernel samples, mod 10
  uint32_t marks = 0;             // of each token sampled
  uint64_t failing = UINT64_MAX;  // reads of this size fail
  uint64_t max_bytes = 1 << 20;   // size of the largest block of memory
  bool shares = false;
  ContainerLimits container{};

  std::string name() const override { return "fake"; }
  Result<uint64_t> allocate(uint64_t bytes) override {
    if (bytes > max_bytes) return Error{"fake: error: no memory"};
    blocks.emplace_back(bytes);
    return reinterpret_cast<uint64_t>(blocks.back().data());
  }
  void release(uint64_t) override {}
  bool shares_memory() const override { return shares; }
  ContainerLimits limits() const override { return container; }
  Status write(uint64_t to, std::span<const std::byte> from) override {
    std::memcpy(reinterpret_cast<void*>(to), from.data(), from.size());
    return {};
  }
  Status read(std::span<std::byte> to, uint64_t from) override {
    if (to.size() == failing) return Error{"fake: error: cannot read"};
    std::memcpy(to.data(), reinterpret_cast<const void*>(from), to.size());
    return {};
  }
  Status clear(uint64_t at, uint64_t bytes) override {
    std::memset(reinterpret_cast<void*>(at), 0, bytes);
    return {};
  }
  uint32_t loads = 0;  // without an unload()
  Status load(const Artefact&) override {
    ++loads;
    return {};
  }
  bool loaded() const override { return loads > 0; }
  void unload() override { loads = 0; }
  // Captured work goes into the graph, and run_graph() does it.
  bool captures = false;
  std::vector<std::function<Status()>> graph;
  bool has_streams() const override { return true; }
  bool capturing(uint64_t) override { return captures; }
  void run_graph() {
    for (const auto& work : graph) REQUIRE(work().ok());
  }
  Status put(std::function<Status()> work) {
    if (!captures) return work();
    graph.push_back(std::move(work));
    return {};
  }
  Status enqueue_write(uint64_t, uint64_t to, std::span<const std::byte> from) override {
    return put([=, this] { return write(to, from); });
  }
  Status enqueue_read(uint64_t, std::span<std::byte> to, uint64_t from) override {
    return put([=, this] { return read(to, from); });
  }
  // Packing copies the first byte of the rows, plus `layout`, and nothing else.
  uint8_t layout = 0;
  uint32_t packs = 0;
  Status pack(uint64_t at) override {
    const auto* pack = reinterpret_cast<const MkPack*>(at);
    const auto byte = static_cast<uint8_t>(*reinterpret_cast<const uint8_t*>(pack->from) + layout);
    std::memcpy(reinterpret_cast<void*>(pack->to), &byte, 1);
    ++packs;
    return {};
  }
  Status launch(uint64_t, uint64_t session_at, uint64_t step, uint32_t) override {
    return put([=, this] { return run(session_at, step); });
  }

  Status run(uint64_t session_at, uint64_t step) {
    const auto* s = reinterpret_cast<const MkSession*>(session_at);
    const auto* now = reinterpret_cast<const MkStep*>(step);
    steps.push_back(*now);
    session = *s;
    lengths.push_back(reinterpret_cast<const int32_t*>(now->lists)[kMaxRequests]);
    pages.assign(reinterpret_cast<const int32_t*>(now->page_index),
                 reinterpret_cast<const int32_t*>(now->page_index) + 1);
    const auto* tokens = reinterpret_cast<const int32_t*>(now->input[0]);
    const auto* positions = reinterpret_cast<const int32_t*>(now->input[1]);
    auto* logits = reinterpret_cast<float*>(s->workspace + 64);
    for (int32_t i = 0; i < now->symbol[1]; ++i)
      for (int32_t v = 0; v < 10; ++v)
        logits[i * 10 + v] = v == (tokens[i] + positions[i]) % 10 ? 50.0f : 0.0f;
    const auto* lists = reinterpret_cast<const int32_t*>(now->lists);
    for (int32_t b = 0; b < now->symbol[0]; ++b)
      sample_one(reinterpret_cast<const MkSample*>(now->samples)[b],
                 {logits + (lists[2 * kMaxRequests + static_cast<uint32_t>(b)] + lists[b] - 1) * 10, 10},
                 reinterpret_cast<uint32_t*>(s->workspace)[b]);
    std::memcpy(reinterpret_cast<void*>(s->fault), &fault, sizeof(fault));
    return {};
  }

  void sample_one(const MkSample& wanted, std::span<const float> row, uint32_t& next) {
    if (wanted.limit == 0) return;
    const std::span seen(reinterpret_cast<const uint32_t*>(wanted.seen), wanted.seen != 0);
    const std::span allowed(reinterpret_cast<const uint32_t*>(wanted.allowed), wanted.allowed != 0);
    // All ids are of one block of ids, whose biases end at the second entry.
    const auto* begin = reinterpret_cast<const uint32_t*>(wanted.bias_begin);
    const std::span biases(reinterpret_cast<const MkBias*>(wanted.biases), begin ? begin[1] : 0);
    const Sampled sampled = sample(row, wanted.sampling, {seen, biases, allowed});
    auto* out = reinterpret_cast<uint32_t*>(wanted.sampled);
    out[0] = counted;
    next = static_cast<uint32_t>((sampled.id + off_by) % 10);
    out[1] = next | marks;
    if (wanted.logprobs == 0) return;
    auto* logprobs = reinterpret_cast<MkLogprobs*>(wanted.logprobs);
    logprobs->sampled = sampled.logprob;
    logprobs->rank = sampled.rank;
    for (size_t i = 0; i < sampled.top.size(); ++i) {
      logprobs->top[i] = sampled.top[i].logprob;
      logprobs->top_id[i] = static_cast<uint32_t>(sampled.top[i].id);
    }
  }
};

inline Manifest manifest() {
  Manifest m;
  m.abi = kAbiVersion;
  m.config_hash = "c0";
  m.workers = 2;
  m.threads = kWorkerThreads;
  m.event_cells = 5;
  m.workspace_bytes = 1024;
  m.vocab = kVocab;
  m.symbols = {{"B", 1, 2},
               {"T", 1, kTokens},
               {"q_len", 1, kTokens, true},
               {"kv_len", 1, kContext, true},
               {"first_row", 0, kTokens - 1, true}};
  m.caches = {{"k", Element::kF32, 2, 4}, {"v", Element::kF32, 2, 4}};
  m.inputs = {{"tokens", Arena::kInput, Element::kI32, 0, 0, {kTokens}},
              {"positions", Arena::kInput, Element::kI32, 0, 0, {kTokens}}};
  m.outputs = {{"next", Arena::kWorkspace, Element::kI32, 0, 16, {kTokens}},
               {"logits", Arena::kWorkspace, Element::kF32, 64, 160, {kTokens, kVocab}}};
  m.grids.resize(2);
  m.grids[0].name = "l0.q";
  m.grids[0].notifies = {"l0.q.done"};
  m.grids[1].name = "l0.attend";
  m.grids[1].kind = 1;
  m.grids[1].waits = {"l0.q.done"};
  m.grids[1].notifies = {"l0.parts"};
  m.grids[1].operands = {"", "k", "v"};
  m.events = {{"l0.q.done", 0, 2}, {"l0.parts", 2, 3}};
  return m;
}

inline Artefact artefact() {
  return made_artefact(manifest());
}

inline Session opened(FakeDevice& device, const SessionOptions& options = {}) {
  Result<Session> session = Session::open(artefact(), {}, "c0", device, options);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  return std::move(session.value());
}

template <class T>
std::string error_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

}  // namespace mkrt::test
