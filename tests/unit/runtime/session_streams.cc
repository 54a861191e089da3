// These tests run steps in two parts, on streams and in graphs of a fake device.
#include "tests/unit/runtime/fake_device.h"

namespace mkrt {
namespace {

using namespace test;

// OneToken is a batch of one request with one token, in page 0.
struct OneToken {
  int32_t token, kv_len;
  const int32_t row_begin[2] = {0, 1}, page_begin[2] = {0, 1}, page = 0;
  Batch batch(std::span<const Samples> samples = {}) const {
    return {{&token, 1}, row_begin, {&kv_len, 1}, {page_begin, {&page, 1}}, samples};
  }
};

TEST_CASE("two steps may be under way, and end in the order in which they were begun") {
  FakeDevice device;
  Session session = opened(device);
  StepResult result;
  const std::string under_way = "step: error: a step is under way: end it first";
  CHECK(error_of(session.end_step(result)) == "step: error: no step is under way");
  const OneToken first{3, 1}, second{5, 2}, third{7, 3};
  REQUIRE(session.begin_step(first.batch()).ok());
  REQUIRE(session.begin_step(second.batch()).ok());
  CHECK(error_of(session.begin_step(third.batch())) == "step: error: 2 steps are under way: end one first");
  CHECK(error_of(session.step(third.batch(), result)) == under_way);
  CHECK(error_of(session.set_stream(1)) == under_way);
  CHECK(error_of(session.use_cache({})) == under_way);
  CHECK(error_of(session.use_scales({})) == under_way);
  for (const int32_t id : {3, 6}) {
    REQUIRE(session.end_step(result).ok());
    CHECK(result.ids == std::vector{id});
  }
  REQUIRE(session.step(third.batch(), result).ok());
  CHECK(result.ids == std::vector{9});
  for (uint32_t i = 0; i < 3; ++i) CHECK(device.steps[i].serial == i);  // refused steps take no number
}

TEST_CASE("an input may be what a request of the step before sampled, before the host knows it") {
  FakeDevice device;
  SessionOptions options;
  options.cache.pages = 2;
  Session session = std::move(Session::open(artefact(), {}, "c0", device, options).value());
  StepResult result;
  // The requests change places: the first step samples 3 + 0 and 4 + 4, and the second begins with 8 and 3.
  const int32_t tokens[] = {3, 4}, rows[] = {0, 1, 2}, kv_len[] = {1, 5}, page_begin[] = {0, 1, 2},
                pages[] = {0, 1};
  const int32_t before[] = {last_sample(1), last_sample(0)}, lengths[] = {6, 2}, turned[] = {1, 0};
  REQUIRE(session.begin_step({tokens, rows, kv_len, {page_begin, pages}}).ok());
  REQUIRE(session.begin_step({before, rows, lengths, {page_begin, turned}}).ok());
  REQUIRE(session.end_step(result).ok());
  CHECK(result.ids == std::vector{3, 8});
  REQUIRE(session.end_step(result).ok());
  CHECK(result.ids == std::vector{(8 + 5) % 10, 3 + 1});
  // A step that samples for the first request alone, and then one of several steps.
  Samples none, several;
  none.limit = 0, several.limit = 2;
  const Samples some[] = {{}, none};
  REQUIRE(session.step({tokens, rows, kv_len, {page_begin, pages}, some}, result).ok());
  CHECK(error_of(session.begin_step({before, rows, lengths, {page_begin, turned}})) ==
        "step: error: request 0: tokens: row 0 is the sample of request 1 of the step before, which sampled "
        "nothing");
  REQUIRE(session.begin_step(OneToken{last_sample(0), 2}.batch()).ok());
  CHECK(error_of(session.begin_step(OneToken{last_sample(2), 3}.batch())) ==
        "step: error: request 0: tokens: row 0 is the sample of request 2 of the step before, which has 1 "
        "requests");
  REQUIRE(session.end_step(result).ok());
  CHECK(result.ids == std::vector{3 + 1});
  REQUIRE(session.step(OneToken{3, 1}.batch({&several, 1}), result).ok());
  CHECK(error_of(session.begin_step(OneToken{last_sample(0), 3}.batch())) ==
        "step: error: request 0: tokens: row 0 has the id -1, expected 0 to 9");
}

TEST_CASE("a launch of several steps is alone: the next one's number is not known before it has ended") {
  FakeDevice device;
  Session session = opened(device);
  StepResult result;
  const OneToken first{3, 1}, second{5, 2};
  Samples several;
  several.limit = 3;
  const std::string alone =
      "step: error: beside a launch of several steps there can be no other: end it first";
  REQUIRE(session.begin_step(first.batch({&several, 1})).ok());
  CHECK(error_of(session.begin_step(second.batch())) == alone);
  REQUIRE(session.end_step(result).ok());
  REQUIRE(session.begin_step(second.batch()).ok());
  CHECK(error_of(session.begin_step(first.batch({&several, 1}))) == alone);
  CHECK(device.steps[1].serial == 1);  // the launch of several steps counted one
}

TEST_CASE("the next launch's number is behind all steps that the kernel has made of the one before") {
  FakeDevice device;
  Session session = opened(device);
  StepResult result;
  Samples several;
  several.limit = 3;
  device.counted = 3;
  REQUIRE(session.step(OneToken{3, 1}.batch({&several, 1}), result).ok());
  CHECK(result.steps == 3);
  CHECK(result.ids.size() == 3);
  device.counted = 1;
  REQUIRE(session.step(OneToken{5, 4}.batch(), result).ok());
  CHECK(result.steps == 1);
  CHECK(device.steps[1].serial == 3);
}

TEST_CASE("a step that the device has no memory for is refused, and the next one runs") {
  FakeDevice device;
  Session session = opened(device);
  const OneToken first{3, 1};
  Samples many;
  many.limit = 4096;  // sampled ids, of one word each
  device.max_bytes = 4 * 4096;
  CHECK(error_of(session.begin_step(first.batch({&many, 1}))) == "fake: error: no memory");
  StepResult result;
  REQUIRE(session.step(first.batch(), result).ok());
  CHECK(result.ids == std::vector{3});
}

TEST_CASE("requests may share pages that they read; a captured step has room for each page once") {
  FakeDevice device;
  Manifest longer = manifest();
  longer.symbols[3].hi = 40;
  SessionOptions options;
  options.cache.pages = 3;
  Result<Session> session = Session::open(made_artefact(longer), {}, "c0", device, options);
  REQUIRE(session.ok());
  // Both requests read page 0, and write a page of their own.
  const int32_t tokens[] = {1, 2}, row_begin[] = {0, 1, 2}, kv_len[] = {17, 18}, page_begin[] = {0, 2, 4},
                pages[] = {0, 2, 0, 1};
  const Batch batch{tokens, row_begin, kv_len, {page_begin, pages}};
  StepResult result;
  REQUIRE(session.value().step(batch, result).ok());
  CHECK(result.ids == std::vector{(1 + 16) % 10, (2 + 17) % 10});
  const auto* index = reinterpret_cast<const int32_t*>(device.steps.back().page_index);
  CHECK(std::vector(index, index + 4) == std::vector{0, 2, 0, 1});
  device.captures = true;
  REQUIRE(session.value().capture_step().ok());
  device.captures = false;
  CHECK(error_of(session.value().fill_step(batch)) ==
        "step: error: found 4 entries of the page table, expected at most 3: the step that was captured has "
        "room for each page once");
  const Batch alone{{tokens, 1}, {row_begin, 2}, {kv_len, 1}, {{page_begin, 2}, {pages, 2}}};
  REQUIRE(session.value().fill_step(alone).ok());
}

TEST_CASE("a captured step is run by its graph, each time for another batch") {
  FakeDevice device;
  Session session = opened(device);
  StepResult result;
  const OneToken one{3, 1};
  CHECK(error_of(session.capture_step()) == "step: error: the stream is not being captured");
  CHECK(error_of(session.fill_step(one.batch())) == "step: error: no step was captured");
  device.captures = true;
  REQUIRE(session.capture_step().ok());
  Samples more;
  more.limit = 2;
  CHECK(error_of(session.capture_step(more)) ==
        "step: error: more samples than the first step that was captured has room for");
  device.captures = false;
  CHECK(device.steps.empty());

  REQUIRE(session.fill_step(one.batch()).ok());
  CHECK(error_of(session.fill_step(one.batch())) == "step: error: a step is under way: end it first");
  device.run_graph();
  REQUIRE(session.end_step(result).ok());
  CHECK(result.ids == std::vector{3});

  const int32_t tokens[] = {1, 2, 4}, row_begin[] = {0, 2, 3}, page_begin[] = {0, 1, 1 + 1}, page[] = {0, 0};
  const int32_t kv_len[] = {4, 1};
  CHECK(error_of(session.fill_step({tokens, row_begin, kv_len, {page_begin, page}})) != "");  // page 0 twice
  REQUIRE(session.fill_step({{tokens, 2}, {row_begin, 2}, {kv_len, 1}, {{page_begin, 2}, {page, 1}}}).ok());
  device.run_graph();
  REQUIRE(session.end_step(result).ok());
  CHECK(result.ids == std::vector{5});
  REQUIRE(session.step(one.batch(), result).ok());  // this step runs outside the graph
  CHECK(error_of(session.fill_step(one.batch({&more, 1}))) ==
        "step: error: more samples than the step that was captured has room for");
  REQUIRE(session.fill_step(one.batch()).ok());
  device.run_graph();
  REQUIRE(session.end_step(result).ok());
  CHECK(result.ids == std::vector{3});
  REQUIRE(device.steps.size() == 4);
  for (uint32_t i = 0; i < 4; ++i) CHECK(device.steps[i].serial == i);
  CHECK(error_of(session.use_cache({})) ==
        "cache: error: a graph has a step of the session: it cannot take another cache");
}

TEST_CASE("a tensor of the last step is read by its name") {
  FakeDevice device;
  Session session = opened(device);
  StepResult result;
  const OneToken one{3, 1};
  std::vector<float> row(kVocab);
  const auto read = [&](const std::string& name) {
    const Status status = session.read_tensor(name, std::as_writable_bytes(std::span(row)));
    return status.ok() ? "" : status.error().message;
  };
  REQUIRE(session.begin_step(one.batch()).ok());
  CHECK(read("logits") == "step: error: a step is under way: end it first");
  REQUIRE(session.end_step(result).ok());
  CHECK(read("logits") == "");
  CHECK(row[3] == 50.0f);
  CHECK(read("l0.y") == "tensor l0.y: error: the model has none of this name");
  row.resize(4 * kVocab + 1);
  CHECK(read("logits") == "tensor logits: error: has 160 bytes, 164 are asked for");
}

TEST_CASE("what a kernel says of its samples is not believed blindly") {
  for (const auto& [counted, message] :
       {std::pair{2u, "step: error: request 0: the kernel says 2 tokens were sampled, expected at most 1"},
        {0u, "step: error: the kernel has sampled nothing"}}) {
    FakeDevice device;
    Session session = opened(device);
    device.counted = counted;
    CHECK(error_of(session.step(std::vector<int32_t>{3})) == message);
  }
}

TEST_CASE("a fault comes with the end of its step, and with its time limit") {
  FakeDevice device;
  Session session = opened(device);
  StepResult result;
  session.set_timeout(3'000'000);
  device.fault = {2, 1, 1, 4, 3, 5, 6, 0};
  const OneToken one{3, 1};
  REQUIRE(session.begin_step(one.batch()).ok());
  CHECK(device.steps[0].timeout_ns == 3'000'000);
  CHECK(
      error_of(session.end_step(result)) ==
      "fake: error: worker 1 task l0.attend[4] waited for event l0.parts[1] beyond 3 ms: seen 5, expected 6");
  CHECK(error_of(session.begin_step(one.batch())) == "step: error: the session had a fault and cannot go on");
}

}  // namespace
}  // namespace mkrt
