// A model is opened on the processor through the C interface, for calls that must fail.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/c_api/mkrt.h"
#include "tools/artefact.h"

namespace mkc::attack {

inline const std::string kCheckpoint = MKC_SOURCE_DIR "/tests/fixtures/models/llama";

using Kernel = void (*)(const void*, const void*);
using Pack = void (*)(const void*, uint32_t, uint32_t);

// All cases share one compiled model.
struct Compiled {
  mkrt::Artefact artefact;
  std::string manifest;
};
const Compiled& compiled();

// Emulated is the same model for the emulator, with its kernels.
struct Emulated {
  HostArtefact host;
  std::string manifest;
  Kernel kernel;
  Pack pack;
};
const Emulated& emulated();

mkrt_session* open_session(mkrt_device* device);
// Opens a session on the emulator, of an artefact without an image.
mkrt_session* open_emulated_session(mkrt_device* device);

struct Opened {
  mkrt_device* device = mkrt_open_processor();
  mkrt_session* session = open_session(device);
  ~Opened() {
    mkrt_close_session(session);
    mkrt_close_device(device);
  }
};

// A step is a valid step of one request, of which cases make one argument wrong.
struct Step {
  uint32_t requests = 1;
  std::vector<int32_t> tokens{5, 17, 3}, row_begin{0, 3}, kv_len{3}, page_begin{0, 1}, page_index{0};
  std::vector<int32_t> ids = std::vector<int32_t>(8), stop_ids{79}, next = std::vector<int32_t>(4);
  mkrt_sampling sampling = MKRT_GREEDY;
  std::vector<mkrt_logprobs> logprobs = std::vector<mkrt_logprobs>(8);
  std::vector<uint32_t> seen = std::vector<uint32_t>(64);
  mkrt_batch batch() const {
    return {sizeof(mkrt_batch), requests,          tokens.data(),    row_begin.data(),
            kv_len.data(),      page_begin.data(), page_index.data()};
  }
  // Makes the step one of two requests.
  void two_requests() {
    requests = 2;
    tokens = {5, 17, 3, 9};
    row_begin = {0, 3, 4};
    kv_len = {3, 1};
    page_begin = {0, 1, 2};
    page_index = {0, 1};
  }
  mkrt_samples samples() {
    mkrt_samples d{};
    d.size = sizeof(d);
    d.sampling = &sampling;
    d.logprobs_size = sizeof(mkrt_logprobs);
    d.ids = ids.data();
    d.limit = 1;
    return d;
  }
};

// Returns a request for four greedy tokens. The prompt must outlive it.
inline mkrt_request request_of(const std::vector<int32_t>& prompt) {
  mkrt_request request{};
  request.size = sizeof(request);
  request.prompt = prompt.data();
  request.prompt_count = static_cast<uint32_t>(prompt.size());
  request.max_new_tokens = 4;
  return request;
}

// Served is an open engine.
struct Served {
  mkrt_engine* engine;
  explicit Served(mkrt_session* session) : engine(mkrt_open_engine(session, nullptr)) {
    REQUIRE_MESSAGE(engine, mkrt_error());
  }
  Served(const Served&) = delete;
  ~Served() { mkrt_close_engine(engine); }
  mkrt_engine_stats stats() const {
    mkrt_engine_stats stats{};
    stats.size = sizeof(stats);
    REQUIRE_MESSAGE(mkrt_stats(engine, &stats) == MKRT_OK, mkrt_error());
    return stats;
  }
  mkrt_outcome take_outcome() const {
    mkrt_outcome outcome{};
    outcome.size = sizeof(outcome);
    REQUIRE_MESSAGE(mkrt_take_outcome(engine, &outcome) == MKRT_OK, mkrt_error());
    return outcome;
  }
};

// Checks that the call failed with this message. `failed` is what the call returned.
void refused(bool failed, const std::string& expected, const char* call);
#define MKC_REFUSED(call, expected) refused(static_cast<bool>(call), expected, #call)

}  // namespace mkc::attack
