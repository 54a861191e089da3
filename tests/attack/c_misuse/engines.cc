// Engines are called with sizes, lists and handles that are wrong, in a wrong order, and from two threads.
#include <atomic>
#include <thread>

#include "tests/attack/c_misuse/opened.h"

namespace mkc::attack {
namespace {

const std::string kClosedEngine = "mkrt: error: engine is no open engine",
                  kTaken = "mkrt: error: session: an engine is open on it: close it first";

TEST_CASE("a closed engine is refused by every function, and closed once") {
  const Opened o;
  mkrt_engine* e = mkrt_open_engine(o.session, nullptr);
  REQUIRE_MESSAGE(e, mkrt_error());
  mkrt_close_engine(e);
  const std::vector<int32_t> prompt{5, 17, 3};
  const mkrt_request request = request_of(prompt);
  uint64_t id = 7;
  mkrt_progress progress{};
  mkrt_outcome outcome{};
  mkrt_engine_stats stats{};
  MKC_REFUSED(mkrt_submit(e, &request, &id) == MKRT_BAD_HANDLE, kClosedEngine);
  MKC_REFUSED(mkrt_cancel(e, 0) == MKRT_BAD_HANDLE, kClosedEngine);
  MKC_REFUSED(mkrt_advance(e) == MKRT_BAD_HANDLE, kClosedEngine);
  MKC_REFUSED(mkrt_take_progress(e, &progress) == MKRT_BAD_HANDLE, kClosedEngine);
  MKC_REFUSED(mkrt_take_outcome(e, &outcome) == MKRT_BAD_HANDLE, kClosedEngine);
  MKC_REFUSED(mkrt_stats(e, &stats) == MKRT_BAD_HANDLE, kClosedEngine);
  mkrt_close_engine(e);
  CHECK(std::string(mkrt_error()) == kClosedEngine);
  MKC_REFUSED(mkrt_advance(reinterpret_cast<mkrt_engine*>(o.session)), kClosedEngine);
  CHECK(id == 7);
}

TEST_CASE("sizes that are none of a version are refused by name, and nothing is written") {
  const Opened o;
  Step s;
  const auto sizes = [](uint32_t size) {
    return std::vector<uint32_t>{0, 4, size - 1, size - 8, size + 1, size + 8, UINT32_MAX};
  };
  const auto message = [](uint32_t found, const std::string& known, const std::string& name,
                          const char* field = "size") {
    return "mkrt: error: " + name + "." + field + ": found " + std::to_string(found) + ", expected " + known +
           ", the size of ";
  };
  // `earlier` is the size of the version before, or 0.
  const auto refuse = [&](auto value, const std::string& name, auto call, uint32_t earlier = 0) {
    const std::string last = std::to_string(sizeof(value));
    const std::string known = earlier == 0 ? last : std::to_string(earlier) + " or " + last;
    for (const uint32_t size : sizes(sizeof(value))) {
      if (size == earlier && size > 0) continue;
      value.size = size;
      MKC_REFUSED(call(&value), message(size, known, name) + name);
    }
  };
  const std::string logprobs = std::to_string(sizeof(mkrt_logprobs));
  mkrt_batch batch = s.batch();
  mkrt_samples samples = s.samples();
  refuse(batch, "mkrt_batch",
         [&](mkrt_batch* b) { return mkrt_step_batch(o.session, b, nullptr, s.next.data()); });
  refuse(
      samples, "mkrt_samples", [&](mkrt_samples* d) { return mkrt_sample(o.session, s.tokens.data(), 3, d); },
      80);
  samples.reserved = 1;
  MKC_REFUSED(mkrt_sample(o.session, s.tokens.data(), 3, &samples),
              "mkrt: error: reserved: found 1, expected 0");
  samples.reserved = 0;
  refuse(s.sampling, "mkrt_sampling", [&](mkrt_sampling* d) {
    samples.sampling = d;
    return mkrt_sample(o.session, s.tokens.data(), 3, &samples);
  });
  s.sampling.logprobs = 1;
  samples = s.samples();
  samples.logprobs = s.logprobs.data();
  for (const uint32_t size : sizes(sizeof(mkrt_logprobs))) {
    samples.logprobs_size = size;
    MKC_REFUSED(mkrt_sample(o.session, s.tokens.data(), 3, &samples),
                message(size, logprobs, "mkrt_samples", "logprobs_size") + "mkrt_logprobs");
  }
  s.sampling = MKRT_GREEDY;
  s.two_requests();
  batch = s.batch();
  const std::vector<mkrt_samples> two{s.samples(), {}};
  MKC_REFUSED(mkrt_begin_step(o.session, &batch, two.data()),
              "mkrt: error: mkrt_samples.size: found 0 at request 1, expected 88, the size at request 0");
  refuse(mkrt_engine_options{}, "mkrt_engine_options",
         [&](mkrt_engine_options* of) { return !mkrt_open_engine(o.session, of); });
  const Served e(o.session);
  uint64_t id = 0;
  refuse(request_of(s.tokens), "mkrt_request",
         [&](mkrt_request* r) { return mkrt_submit(e.engine, r, &id); });
  refuse(mkrt_progress{}, "mkrt_progress", [&](mkrt_progress* p) { return mkrt_take_progress(e.engine, p); });
  refuse(mkrt_outcome{}, "mkrt_outcome", [&](mkrt_outcome* p) { return mkrt_take_outcome(e.engine, p); });
  refuse(mkrt_engine_stats{}, "mkrt_engine_stats",
         [&](mkrt_engine_stats* p) { return mkrt_stats(e.engine, p); });
  mkrt_outcome outcome{};
  outcome.size = sizeof(outcome);
  outcome.logprobs_size = 3;
  MKC_REFUSED(mkrt_take_outcome(e.engine, &outcome),
              message(3, logprobs, "mkrt_outcome", "logprobs_size") + "mkrt_logprobs");
}

TEST_CASE("options of an engine out of range are refused, and its session is free") {
  const Opened o;
  const auto refuse = [&](auto edit, const std::string& expected) {
    mkrt_engine_options options{};
    options.size = sizeof(options);
    edit(options);
    MKC_REFUSED(!mkrt_open_engine(o.session, &options), expected);
  };
  const int32_t stop = 1;
  refuse([](auto& of) { of.preemption = 2; }, "mkrt: error: preemption: found 2, expected 0 or 1");
  for (const uint32_t steps : {4097u, UINT32_MAX})
    refuse([&](auto& of) { of.steps_per_launch = steps; },
           fmt::format("mkrt: error: steps_per_launch: found {}, expected 0 to 4096", steps));
  refuse([](auto& of) { of.reserved = 1; }, "mkrt: error: reserved: found 1, expected 0");
  refuse([](auto& of) { of.stop_count = 1; }, "mkrt: error: stop_ids is NULL");
  refuse([&](auto& of) { of.stop_ids = &stop, of.stop_count = UINT32_MAX; },
         "mkrt: error: stop_ids: found 4294967295 entries, expected at most 96, the ids that there are");
  refuse([](auto& of) { of.pages = 4; }, "cache: error: the page size is 0, expected 16, 32 or 64");
  CHECK(mkrt_step(o.session, &stop, 1, nullptr, nullptr) == MKRT_OK);
  mkrt_engine_options options{};
  options.size = sizeof(options);
  options.pages = UINT32_MAX;
  options.page_size = 64;
  CHECK(!mkrt_open_engine(o.session, &options));  // too many pages, or no memory
}

TEST_CASE("lists of a request are refused before they are read") {
  const Opened o;
  const Served e(o.session);
  const std::vector<int32_t> prompt{5, 17, 3};
  const mkrt_logit_bias bias{5, 1};
  uint64_t id = 7;
  const auto refuse = [&](auto edit, const std::string& expected) {
    mkrt_request request = request_of(prompt);
    edit(request);
    MKC_REFUSED(mkrt_submit(e.engine, &request, &id) == MKRT_BAD_ARGUMENT, "mkrt: error: " + expected);
  };
  const std::string ids = " found 4294967295 entries, expected at most 96, the ids that there are";
  refuse([](auto& r) { r.prompt = nullptr; }, "prompt is NULL");
  refuse([](auto& r) { r.stop_count = 1; }, "stop_ids is NULL");
  refuse([](auto& r) { r.bias_count = 1; }, "logit_bias is NULL");
  refuse([](auto& r) { r.allowed_count = 1; }, "allowed_ids is NULL");
  refuse([](auto& r) { r.prompt_count = UINT32_MAX; },
         "prompt: found 4294967295 entries, expected at most 128, the context");
  const std::vector<int32_t> long_prompt(129, 5);
  refuse([&](auto& r) { r.prompt = long_prompt.data(), r.prompt_count = 129; },
         "prompt: found 129 entries, expected at most 128, the context");
  refuse([&](auto& r) { r.stop_ids = prompt.data(), r.stop_count = UINT32_MAX; }, "stop_ids:" + ids);
  refuse([&](auto& r) { r.logit_bias = &bias, r.bias_count = UINT32_MAX; }, "logit_bias:" + ids);
  refuse([&](auto& r) { r.allowed_ids = prompt.data(), r.allowed_count = UINT32_MAX; }, "allowed_ids:" + ids);
  CHECK(id == 7);
  CHECK(e.stats().waiting == 0);
}

TEST_CASE("requests that cannot run have outcomes with their errors") {
  const Opened o;
  const Served e(o.session);
  const std::vector<int32_t> prompt{5, 17, 3}, outside{5, 96};
  const auto ends = [&](auto edit, const std::string& expected) {
    mkrt_request request = request_of(prompt);
    request.name = "r";
    edit(request);
    uint64_t id = 0;
    REQUIRE_MESSAGE(mkrt_submit(e.engine, &request, &id) == MKRT_OK, mkrt_error());
    const mkrt_outcome outcome = e.take_outcome();
    CHECK(outcome.request == id);
    CHECK(outcome.reason == MKRT_ERROR);
    CHECK(outcome.status == MKRT_BAD_ARGUMENT);
    CHECK(std::string(outcome.error) == "r: error: " + expected);
    CHECK(outcome.count == 0);
  };
  mkrt_sampling cold = MKRT_GREEDY;
  cold.temperature = -1;
  ends([](auto& r) { r.prompt_count = 0; }, "prompt: is empty, expected at least one token");
  ends([&](auto& r) { r.prompt = outside.data(), r.prompt_count = 2; },
       "prompt: token 1 has the id 96, expected 0 to 95");
  ends([](auto& r) { r.max_new_tokens = 0; }, "max_new_tokens: found 0, expected 1 or more");
  ends([](auto& r) { r.max_new_tokens = UINT32_MAX; },
       "prompt: 3 tokens and 4294967295 new ones need 4294967297 positions, the context has 128");
  ends([&](auto& r) { r.sampling = &cold; }, "temperature: is -1, expected 0 to 1000000");
  ends([](auto& r) { r.presence_penalty = 3; }, "presence_penalty: is 3, expected -2 to 2");
}

TEST_CASE("calls in a wrong order are refused, and the session is free once its engine is closed") {
  const Opened o;
  Step s;
  const mkrt_batch batch = s.batch();
  mkrt_samples samples = s.samples();
  const int32_t* tokens = s.tokens.data();
  const uint64_t base = 16;
  const float scale = 1;
  REQUIRE(mkrt_begin_step(o.session, &batch, nullptr) == MKRT_OK);
  MKC_REFUSED(!mkrt_open_engine(o.session, nullptr), "step: error: a step is under way: end it first");
  CHECK(mkrt_error_status() == MKRT_OUT_OF_ORDER);
  REQUIRE(mkrt_end_step(o.session, s.next.data(), nullptr) == MKRT_OK);
  {
    const Served e(o.session);
    MKC_REFUSED(!mkrt_open_engine(o.session, nullptr), kTaken);
    const auto taken = [](mkrt_status status) { return status == MKRT_OUT_OF_ORDER; };
    MKC_REFUSED(taken(mkrt_step(o.session, tokens, 1, nullptr, nullptr)), kTaken);
    MKC_REFUSED(taken(mkrt_sample(o.session, tokens, 1, &samples)), kTaken);
    MKC_REFUSED(taken(mkrt_step_batch(o.session, &batch, nullptr, s.next.data())), kTaken);
    MKC_REFUSED(taken(mkrt_sample_batch(o.session, &batch, &samples)), kTaken);
    MKC_REFUSED(taken(mkrt_begin_step(o.session, &batch, nullptr)), kTaken);
    MKC_REFUSED(taken(mkrt_end_step(o.session, nullptr, nullptr)), kTaken);
    MKC_REFUSED(taken(mkrt_capture_step(o.session, nullptr)), kTaken);
    MKC_REFUSED(taken(mkrt_fill_step(o.session, &batch, nullptr)), kTaken);
    MKC_REFUSED(taken(mkrt_rewind(o.session, 0)), kTaken);
    MKC_REFUSED(taken(mkrt_make_cache(o.session, 16, 1, MKRT_NHD)), kTaken);
    MKC_REFUSED(taken(mkrt_use_cache(o.session, 16, 1, 1, 1, 1, &base, 1)), kTaken);
    MKC_REFUSED(taken(mkrt_use_scales(o.session, &scale, 1)), kTaken);
    CHECK(mkrt_advance(e.engine) == MKRT_OK);  // without requests, it has no effect
    CHECK(e.take_outcome().reason == MKRT_UNFINISHED);
    MKC_REFUSED(mkrt_cancel(e.engine, 0), "engine: error: no unfinished request has the id 0");
    uint64_t id = 0;
    const mkrt_request request = request_of(s.tokens);
    REQUIRE(mkrt_submit(e.engine, &request, &id) == MKRT_OK);  // an engine is closed with its requests
  }
  CHECK(mkrt_step(o.session, tokens, 1, nullptr, nullptr) == MKRT_OK);
}

TEST_CASE("an engine that opens forgets what its session was fed, and one that does not forgets nothing") {
  const Opened o;
  const std::vector<int32_t> prompt{5, 17, 3};
  REQUIRE(mkrt_step(o.session, prompt.data(), 3, nullptr, nullptr) == MKRT_OK);
  mkrt_engine_options wrong{};
  wrong.size = sizeof(wrong);
  wrong.preemption = 2;
  CHECK(!mkrt_open_engine(o.session, &wrong));
  CHECK(mkrt_position(o.session) == 3);
  {
    const Served e(o.session);
    CHECK(mkrt_position(o.session) == 0);
  }
  CHECK(mkrt_position(o.session) == 0);
}

TEST_CASE("device and session may be closed before the engine") {
  mkrt_device* device = mkrt_open_processor();
  mkrt_session* session = open_session(device);
  REQUIRE(session);
  const Served e(session);
  mkrt_close_device(device);
  mkrt_close_session(session);
  const std::vector<int32_t> prompt{5, 17, 3};
  const mkrt_request request = request_of(prompt);
  uint64_t id = 0;
  REQUIRE(mkrt_submit(e.engine, &request, &id) == MKRT_OK);
  while (e.stats().running + e.stats().waiting > 0) REQUIRE(mkrt_advance(e.engine) == MKRT_OK);
  CHECK(e.take_outcome().reason == MKRT_LENGTH);
}

TEST_CASE("calls of two threads for one device are refused, or one after the other, and handles close once") {
  const Opened o;
  mkrt_session* other = open_session(o.device);
  const Served e(o.session);
  const std::vector<int32_t> prompt{5, 17, 3};
  std::atomic<uint32_t> done = 0, busy = 0, wrong = 0;
  const auto count = [&](mkrt_status status) {
    ++(status == MKRT_OK ? done : status == MKRT_BUSY ? busy : wrong);
  };
  const auto serve = [&] {
    const mkrt_request request = request_of(prompt);
    uint64_t id = 0;
    for (int i = 0; i < 100; ++i) {
      count(mkrt_submit(e.engine, &request, &id));
      count(mkrt_advance(e.engine));
      mkrt_outcome outcome{};
      outcome.size = sizeof(outcome);
      count(mkrt_take_outcome(e.engine, &outcome));
      if (mkrt_vocab(other) != 96 || mkrt_caches(o.session) != 4) ++wrong;  // any thread may ask
    }
  };
  const auto step = [&] {
    for (int i = 0; i < 100; ++i) {
      count(mkrt_step(other, prompt.data(), 1, nullptr, nullptr));
      count(mkrt_rewind(other, 0));
    }
  };
  std::thread first(serve), second(serve), third(step);
  for (std::thread* thread : {&first, &second, &third}) thread->join();
  CHECK(wrong == 0);
  CHECK(done > 0);
  CHECK(done + busy == 800);
  std::thread closer([&] { mkrt_close_session(other); }), stepper(step);
  closer.join();
  stepper.join();
  CHECK(mkrt_vocab(other) == 0);
}

TEST_CASE("a call beside another one for the same device fails at once and says so") {
  const Opened o;
  std::atomic<bool> stop = false;
  std::atomic<uint32_t> busy = 0;
  std::string said;
  std::thread asks([&] {
    while (!stop)
      if (mkrt_pages(o.session) == 0) {
        if (busy++ == 0 && mkrt_error_status() == MKRT_BUSY) said = mkrt_error();
      }
  });
  mkrt_session* second = nullptr;
  while (busy == 0) {  // the opening of a session takes long enough to be met
    second = open_session(o.device);
    mkrt_close_session(second);
  }
  stop = true;
  asks.join();
  CHECK(said == "mkrt: error: session: another thread is in a call for its device");
}

}  // namespace
}  // namespace mkc::attack
