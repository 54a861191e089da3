// Functions are called in a wrong order, on closed handles, and with sizes and numbers out of range.
#include <cstdint>
#include <set>

#include "tests/attack/c_misuse/opened.h"

namespace mkc::attack {
namespace {

const std::string kClosedSession = "mkrt: error: session is no open session",
                  kClosedDevice = "mkrt: error: device is no open device";

TEST_CASE("a closed session is refused by every function, and closed once") {
  Opened o;
  mkrt_session* s = open_session(o.device);
  REQUIRE(s);
  mkrt_close_session(s);
  Step step;
  const mkrt_batch batch = step.batch();
  mkrt_samples samples = step.samples();
  const int32_t* tokens = step.tokens.data();
  const uint64_t base = 16;
  const float scale = 1;
  MKC_REFUSED(mkrt_step(s, tokens, 1, nullptr, nullptr), kClosedSession);
  MKC_REFUSED(mkrt_sample(s, tokens, 1, &samples), kClosedSession);
  MKC_REFUSED(mkrt_step_batch(s, &batch, nullptr, step.next.data()), kClosedSession);
  MKC_REFUSED(mkrt_sample_batch(s, &batch, &samples), kClosedSession);
  MKC_REFUSED(mkrt_begin_step(s, &batch, nullptr), kClosedSession);
  MKC_REFUSED(mkrt_end_step(s, nullptr, nullptr), kClosedSession);
  MKC_REFUSED(mkrt_capture_step(s, nullptr), kClosedSession);
  MKC_REFUSED(mkrt_fill_step(s, &batch, nullptr), kClosedSession);
  MKC_REFUSED(mkrt_rewind(s, 0), kClosedSession);
  MKC_REFUSED(mkrt_make_cache(s, 16, 1, MKRT_NHD), kClosedSession);
  MKC_REFUSED(mkrt_use_cache(s, 16, 1, 1, 1, 1, &base, 1), kClosedSession);
  MKC_REFUSED(mkrt_use_scales(s, &scale, 1), kClosedSession);
  MKC_REFUSED(mkrt_read_tensor(s, "logits", step.next.data(), 4), kClosedSession);
  MKC_REFUSED(!mkrt_trace(s), kClosedSession);
  MKC_REFUSED(mkrt_set_stream(s, nullptr), kClosedSession);
  MKC_REFUSED(mkrt_set_timeout(s, 1), kClosedSession);
  MKC_REFUSED(mkrt_logits(s) == 0, kClosedSession);
  for (const auto get : {mkrt_vocab, mkrt_max_tokens, mkrt_context, mkrt_position, mkrt_max_requests,
                         mkrt_page_size, mkrt_pages, mkrt_caches})
    MKC_REFUSED(get(s) == 0, kClosedSession);
  mkrt_close_session(s);
  CHECK(std::string(mkrt_error()) == kClosedSession);
  CHECK(mkrt_step(o.session, tokens, 1, nullptr, nullptr) == 0);
}

TEST_CASE("a device may be closed before its sessions, and once") {
  mkrt_device* device = mkrt_open_processor();
  mkrt_session* session = open_session(device);
  REQUIRE(session);
  mkrt_close_device(device);
  MKC_REFUSED(!mkrt_device_name(device), kClosedDevice);
  MKC_REFUSED(mkrt_accept_unsealed(device, 1), kClosedDevice);
  MKC_REFUSED(mkrt_keep_weights(device, nullptr), kClosedDevice);
  MKC_REFUSED(!open_session(device), kClosedDevice);
  MKC_REFUSED(!mkrt_open_session(device, "f", "d"), kClosedDevice);
  mkrt_close_device(device);
  CHECK(std::string(mkrt_error()) == kClosedDevice);
  const int32_t token = 5;
  CHECK(mkrt_step(session, &token, 1, nullptr, nullptr) == 0);
  mkrt_close_session(session);
}

TEST_CASE("a closed handle stays closed, whatever is opened after it") {
  std::set<const void*> seen;
  const auto add = [&](const void* handle) {
    REQUIRE_MESSAGE(handle, mkrt_error());
    CHECK(seen.insert(handle).second);
    CHECK(reinterpret_cast<uintptr_t>(handle) % 2 == 1);  // no object has such an address
  };
  const Opened o;
  add(o.device);
  add(o.session);
  mkrt_device* const device = mkrt_open_processor();
  mkrt_close_device(device);
  add(device);
  mkrt_session* const session = open_session(o.device);
  mkrt_close_session(session);
  add(session);
  mkrt_engine* const engine = mkrt_open_engine(o.session, nullptr);
  mkrt_close_engine(engine);
  add(engine);
  const Opened later;
  add(later.device);
  add(later.session);
  mkrt_engine* const open = mkrt_open_engine(later.session, nullptr);
  add(open);
  mkrt_close_device(device);
  mkrt_close_session(session);
  mkrt_close_engine(engine);
  mkrt_engine_stats stats{};
  stats.size = sizeof(stats);
  CHECK(std::string(mkrt_device_name(later.device)) == "cpu");
  CHECK(mkrt_vocab(later.session) == 96);
  CHECK(mkrt_stats(open, &stats) == MKRT_OK);
  mkrt_close_engine(open);
}

TEST_CASE("the status tells a position of 0 from an error") {
  const Opened o;
  MKC_REFUSED(mkrt_position(nullptr) == 0, "mkrt: error: session is NULL");
  CHECK(mkrt_error_status() == MKRT_BAD_ARGUMENT);
  CHECK(mkrt_position(o.session) == 0);
  CHECK(mkrt_error_status() == MKRT_OK);
  CHECK(std::string(mkrt_error()) == "");
}

TEST_CASE("handles of another kind, and pointers that are no handles, are refused") {
  const Opened o;
  int nothing = 0;
  MKC_REFUSED(mkrt_vocab(reinterpret_cast<mkrt_session*>(o.device)) == 0, kClosedSession);
  MKC_REFUSED(!mkrt_device_name(reinterpret_cast<mkrt_device*>(o.session)), kClosedDevice);
  MKC_REFUSED(mkrt_vocab(reinterpret_cast<mkrt_session*>(&nothing)) == 0, kClosedSession);
}

TEST_CASE("steps that are begun, ended, captured and filled in a wrong order are refused") {
  const Opened o;
  Step s;
  const mkrt_batch batch = s.batch();
  const auto begin = [&] { return mkrt_begin_step(o.session, &batch, nullptr); };
  const auto end = [&] { return mkrt_end_step(o.session, s.next.data(), nullptr); };
  const std::string under_way = "step: error: a step is under way: end it first";
  const std::string no_streams = "step: error: the device cpu has no streams: no step can be captured";
  MKC_REFUSED(end(), "step: error: no step is under way");
  MKC_REFUSED(mkrt_capture_step(o.session, nullptr), no_streams);
  CHECK(mkrt_error_status() == MKRT_BAD_ARGUMENT);
  MKC_REFUSED(mkrt_set_stream(o.session, reinterpret_cast<void*>(16)),
              "stream: error: found 0x10, expected 0: the device cpu has no streams");
  CHECK(mkrt_error_status() == MKRT_BAD_ARGUMENT);
  MKC_REFUSED(mkrt_fill_step(o.session, &batch, nullptr), no_streams);
  REQUIRE(begin() == 0);
  MKC_REFUSED(mkrt_step(o.session, s.tokens.data(), 1, nullptr, nullptr), under_way);
  MKC_REFUSED(mkrt_step_batch(o.session, &batch, nullptr, s.next.data()), under_way);
  MKC_REFUSED(mkrt_set_stream(o.session, nullptr), under_way);
  MKC_REFUSED(mkrt_make_cache(o.session, 16, 4, MKRT_NHD), under_way);
  MKC_REFUSED(mkrt_read_tensor(o.session, "logits", s.next.data(), 4), under_way);
  REQUIRE(begin() == 0);
  MKC_REFUSED(begin(), "step: error: 2 steps are under way: end one first");
  CHECK(end() == 0);
  CHECK(end() == 0);
  MKC_REFUSED(end(), "step: error: no step is under way");
  REQUIRE(begin() == 0);  // a session may be closed while a step is under way
}

TEST_CASE("sizes, ids and positions out of range are refused by number") {
  const Opened o;
  Step s;
  const auto step = [&](uint32_t count) {
    return mkrt_step(o.session, s.tokens.data(), count, nullptr, nullptr);
  };
  MKC_REFUSED(step(0), "step: error: 0 tokens, expected 1 to 64");
  MKC_REFUSED(step(UINT32_MAX), "step: error: 4294967295 tokens, expected 1 to 64");
  for (const int32_t id : {-1, 96, INT32_MIN, INT32_MAX}) {
    s.tokens[1] = id;
    MKC_REFUSED(step(3), "step: error: token 1 has the id " + std::to_string(id) + ", expected 0 to 95");
  }
  MKC_REFUSED(mkrt_rewind(o.session, 1), "mkrt: error: cannot go back to position 1, the session is at 0");
  MKC_REFUSED(mkrt_rewind(o.session, UINT32_MAX),
              "mkrt: error: cannot go back to position 4294967295, the session is at 0");
  MKC_REFUSED(mkrt_make_cache(o.session, 0, 4, MKRT_NHD),
              "cache: error: the page size is 0, expected 16, 32 or 64");
  MKC_REFUSED(mkrt_make_cache(o.session, 16, 0, MKRT_NHD),
              "mkrt: error: 0 pages of form 0, expected 1 or more of 0 to 2");
  MKC_REFUSED(mkrt_make_cache(o.session, 16, 4, static_cast<mkrt_form>(3)),
              "mkrt: error: 4 pages of form 3, expected 1 or more of 0 to 2");
  const uint64_t base = 16;
  MKC_REFUSED(mkrt_use_cache(o.session, 16, 4, 1, 1, 1, &base, UINT32_MAX),
              "cache: error: 4294967295 addresses, the model has 4 caches");
  const float scale = 1;
  MKC_REFUSED(mkrt_use_scales(o.session, &scale, UINT32_MAX),
              "cache: error: found 4294967295 scales, the model has no caches of e4m3");
  MKC_REFUSED(mkrt_read_tensor(o.session, "logits", s.next.data(), SIZE_MAX),
              "tensor logits: error: has 24576 bytes, 18446744073709551615 are asked for");
  MKC_REFUSED(mkrt_read_tensor(o.session, "none", s.next.data(), 4),
              "tensor none: error: the model has none of this name");
  MKC_REFUSED(!mkrt_trace(o.session), "trace: error: the kernel stamps none: compile it with --trace");
  CHECK(mkrt_make_cache(o.session, 64, UINT32_MAX, MKRT_NHD) != 0);  // too many pages, or no memory
  s.tokens[1] = 17;
  CHECK(step(3) == 0);
}

TEST_CASE("lists of a batch out of range are refused by request and field") {
  const Opened o;
  const auto refuse = [&](auto edit, const std::string& expected) {
    Step s;
    mkrt_batch batch = s.batch();
    edit(s, batch);
    MKC_REFUSED(mkrt_step_batch(o.session, &batch, nullptr, s.next.data()), "step: error: " + expected);
  };
  refuse([](Step&, mkrt_batch& b) { b.requests = 0; }, "kv_len: found 0 requests, expected 1 to 16");
  refuse([](Step&, mkrt_batch& b) { b.requests = UINT32_MAX; },
         "found 4294967295 requests, expected 1 to 16");
  refuse([](Step& s, mkrt_batch&) { s.row_begin[0] = 1; }, "request 0: row_begin: found 1, expected 0");
  refuse([](Step& s, mkrt_batch&) { s.row_begin[1] = -1; },
         "request 0: row_begin: ends at -1, expected at least 1");
  refuse([](Step& s, mkrt_batch&) { s.row_begin[1] = INT32_MAX; },
         "tokens: found 2147483647 rows, expected 1 to 64");
  refuse([](Step& s, mkrt_batch&) { s.tokens[2] = 96; },
         "request 0: tokens: row 2 has the id 96, expected 0 to 95");
  refuse([](Step& s, mkrt_batch&) { s.kv_len[0] = 2; },
         "request 0: kv_len: found 2, expected at least 3, its rows");
  refuse([](Step& s, mkrt_batch&) { s.kv_len[0] = INT32_MAX; },
         "request 0: kv_len: found 2147483647, expected at most 128, the context");
  refuse([](Step& s, mkrt_batch&) { s.kv_len[0] = 17; },
         "request 0: kv_len: found 17, expected at most 16, the positions of its 1 pages");
  refuse([](Step& s, mkrt_batch&) { s.page_begin[0] = -1; },
         "request 0: pages.begin: found -1 to 1, expected to rise from 0 to at most 1");
  refuse([](Step& s, mkrt_batch&) { s.page_begin = {1, 0}; },
         "request 0: pages.begin: found 1 to 0, expected to rise from 0 to at most 0");
  for (const int32_t page : {-1, 8, INT32_MAX, INT32_MIN})
    refuse([page](Step& s, mkrt_batch&) { s.page_index[0] = page; },
           "request 0: pages.index: entry 0 is page " + std::to_string(page) + ", expected 0 to 7");
}

TEST_CASE("samples out of range are refused") {
  const Opened o;
  const auto refuse = [&](auto edit, const std::string& expected) {
    Step s;
    mkrt_samples samples = s.samples();
    edit(s, samples);
    MKC_REFUSED(mkrt_sample(o.session, s.tokens.data(), 3, &samples), "step: error: request 0: " + expected);
  };
  refuse([](Step&, mkrt_samples& d) { d.limit = UINT32_MAX; },
         "limit: found 4294967295, expected at most 4096");
  refuse([](Step& s, mkrt_samples& d) { d.stop_ids = s.stop_ids.data(), d.stop_count = UINT32_MAX; },
         "stop_ids: found 4294967295, expected at most 96, the ids that there are");
  const mkrt_bias bias{96, 1, 0};
  refuse([&](Step&, mkrt_samples& d) { d.biases = &bias, d.bias_count = UINT32_MAX; },
         "biases: found 4294967295, expected at most 96, the ids that there are");
  refuse([&](Step&, mkrt_samples& d) { d.biases = &bias, d.bias_count = 1; },
         "biases: entry 0 has the id 96, expected 0 to 95");
  const uint32_t nothing[3]{};
  refuse([&](Step&, mkrt_samples& d) { d.allowed = nothing; },
         "allowed: found no id, expected at least one of 96");
  refuse([](Step& s, mkrt_samples&) { s.sampling.temperature = -1; },
         "temperature: is -1, expected 0 to 1000000");
  refuse([](Step& s, mkrt_samples& d) { d.logprobs = s.logprobs.data(), s.sampling.logprobs = 99; },
         "logprobs: is 99, expected 0 to 21");
}

TEST_CASE("artefacts of no bytes, of other bytes and of impossible sizes are refused") {
  const Opened o;
  const Compiled& c = compiled();
  const std::vector<std::byte>& plan = c.artefact.plan;
  const auto open = [&](size_t manifest_bytes, size_t plan_bytes, const void* image, size_t image_bytes) {
    return !mkrt_open_session_from_memory(o.device, c.manifest.data(), manifest_bytes, plan.data(),
                                          plan_bytes, image, image_bytes, kCheckpoint.c_str());
  };
  const size_t whole = c.manifest.size();
  MKC_REFUSED(open(whole, SIZE_MAX, nullptr, 0),
              "mkrt: error: plan has 18446744073709551615 bytes, expected at most 9223372036854775807");
  MKC_REFUSED(open(SIZE_MAX, plan.size(), nullptr, 0),
              "mkrt: error: manifest has 18446744073709551615 bytes, expected at most 9223372036854775807");
  MKC_REFUSED(open(whole, plan.size(), nullptr, 8), "mkrt: error: image is NULL");
  CHECK(open(0, plan.size(), nullptr, 0));
  CHECK(open(whole - 1, plan.size(), nullptr, 0));
  CHECK(open(whole, 0, nullptr, 0));
  CHECK(open(whole, plan.size() - 1, nullptr, 0));
  CHECK(open(whole, plan.size(), plan.data(), 16));
  CHECK(std::string(mkrt_error()).starts_with("seal: error: the code has the hash "));
  CHECK(open(whole, plan.size(), nullptr, 0));
  CHECK(std::string(mkrt_error()).starts_with("seal: error: the code has the hash "));
  CHECK(open(whole, plan.size(), c.artefact.image.data(), c.artefact.image.size() - 1));
  CHECK(std::string(mkrt_error()).starts_with("seal: error: the code has the hash "));
  const Pack pack = emulated().pack;
  void (*const none[])(const void*, const void*, uint32_t) = {nullptr};
  MKC_REFUSED(!mkrt_open_emulator_kernels(none, 0, pack, 0), "mkrt: error: 0 kernels, expected 1 to 65536");
  MKC_REFUSED(!mkrt_open_emulator_kernels(none, UINT32_MAX, pack, 0),
              "mkrt: error: 4294967295 kernels, expected 1 to 65536");
  const std::vector<void (*)(const void*, const void*, uint32_t)> most(65536, nullptr);
  mkrt_device* device = mkrt_open_emulator_kernels(most.data(), 65536, pack, 0);
  CHECK(device);
  mkrt_close_device(device);
  CHECK(!mkrt_open_session(o.device, "", kCheckpoint.c_str()));
  CHECK(!mkrt_open_session(o.device, "/", kCheckpoint.c_str()));
  CHECK(!mkrt_open_cuda(-1));
  CHECK(!mkrt_open_cuda(INT32_MAX));
}

TEST_CASE("greedy tokens are of rank 1") {
  Opened c;
  Step step;
  step.sampling.logprobs = 1 + 2;
  const mkrt_batch batch = step.batch();
  mkrt_samples samples = step.samples();
  samples.limit = 3;
  samples.logprobs = step.logprobs.data();
  REQUIRE(mkrt_sample_batch(c.session, &batch, &samples) == MKRT_OK);
  REQUIRE(samples.count == 3);
  for (uint32_t i = 0; i < samples.count; ++i) CHECK(step.logprobs[i].rank == 1);
}

}  // namespace
}  // namespace mkc::attack
