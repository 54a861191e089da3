// A model on the processor through the C interface, and calls that must fail.
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

// The same model for the emulator, with its kernels.
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
  std::vector<int32_t> tokens{5, 17, 3}, row_begin{0, 3}, kv_len{3}, page_begin{0, 1}, page_index{0};
  std::vector<int32_t> ids = std::vector<int32_t>(8), stop_ids{79}, next = std::vector<int32_t>(4);
  std::vector<mkrt_logprobs> logprobs = std::vector<mkrt_logprobs>(8);
  std::vector<uint32_t> seen = std::vector<uint32_t>(64);
  mkrt_batch batch() const {
    return {tokens.data(), row_begin.data(), kv_len.data(), page_begin.data(), page_index.data(), 1};
  }
  mkrt_samples samples() {
    mkrt_samples d{};
    d.sampling = mkrt_greedy();
    d.ids = ids.data();
    d.limit = 1;
    return d;
  }
};

// Checks that the call failed with this message. `failed` is what the call returned.
void refused(bool failed, const std::string& expected, const char* call);
#define MKC_REFUSED(call, expected) refused(static_cast<bool>(call), expected, #call)

}  // namespace mkc::attack
