// These tests check that messages between a server and its device's process arrive as sent, and that nothing
// else is taken for one.
#include "tools/serve/device_link.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tools/serve/device_wire.h"

namespace mkc {
namespace {

using std::chrono::milliseconds;

struct Pair {
  DeviceLink server, device;
};

Pair make_pair() {
  DeviceLink::Ends other;
  DeviceLink server = DeviceLink::make(other).value();
  return {std::move(server), DeviceLink::open(other).value()};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const Message& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}

// memcmp() takes no null pointers, which empty lists have.
template <class A, class B>
bool have_same_bytes(const A& a, const B& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

struct Lists {
  std::vector<int32_t> tokens, row_begin, kv_len, page_begin, page_index, stop_ids;
  std::vector<uint32_t> seen, allowed;
  std::vector<mkrt::MkBias> biases;
};

Lists random_lists(std::mt19937& random) {
  Lists lists;
  for (std::vector<int32_t>* list : {&lists.tokens, &lists.row_begin, &lists.kv_len, &lists.page_begin,
                                     &lists.page_index, &lists.stop_ids}) {
    list->resize(random() % 40);
    for (int32_t& v : *list) v = static_cast<int32_t>(random());
  }
  lists.seen.assign(random() % 9, random());
  lists.allowed.assign(random() % 9, random());
  lists.biases.assign(random() % 9, {static_cast<uint32_t>(random()), 0.5f, -2.0f});
  return lists;
}

TEST_CASE("a batch read back is the batch written") {
  std::mt19937 random(3);
  ReceivedBatch read;  // one object for all, as in the process
  for (int i = 0; i < 300; ++i) {
    const Lists lists = random_lists(random);
    std::vector<mkrt::Samples> samples(random() % 4);
    for (mkrt::Samples& s : samples)
      s = {.sampling = {.temperature = 0.5f, .seed = random()},
           .limit = static_cast<uint32_t>(random()),
           .seen = lists.seen,
           .biases = lists.biases,
           .allowed = lists.allowed,
           .stop_ids = lists.stop_ids};
    const std::vector<mkrt::ScoredRow> scored(random() % 4, {5, static_cast<int32_t>(random()), 3});
    const mkrt::Batch batch{lists.tokens, lists.row_begin, lists.kv_len, {lists.page_begin, lists.page_index},
                            samples,      i % 2 == 0,      scored};
    Bytes bytes;
    write_batch(batch, bytes);
    REQUIRE(read_batch(bytes, read));
    const auto equal = [](auto a, const auto& b) { return std::ranges::equal(a, b); };
    CHECK(equal(read.batch.tokens, lists.tokens));
    CHECK(equal(read.batch.row_begin, lists.row_begin));
    CHECK(equal(read.batch.kv_len, lists.kv_len));
    CHECK(equal(read.batch.pages.begin, lists.page_begin));
    CHECK(equal(read.batch.pages.index, lists.page_index));
    CHECK(read.batch.all_logits == batch.all_logits);
    REQUIRE(read.batch.scored.size() == scored.size());
    CHECK(have_same_bytes(read.batch.scored, scored));
    REQUIRE(read.batch.samples.size() == samples.size());
    for (size_t s = 0; s < samples.size(); ++s) {
      CHECK(std::memcmp(&read.batch.samples[s].sampling, &samples[s].sampling, sizeof(mkrt::MkSampling)) ==
            0);
      CHECK(read.batch.samples[s].limit == samples[s].limit);
      CHECK(equal(read.batch.samples[s].seen, lists.seen));
      CHECK(equal(read.batch.samples[s].allowed, lists.allowed));
      CHECK(have_same_bytes(read.batch.samples[s].biases, lists.biases));
      CHECK(read.batch.samples[s].biases.size() == lists.biases.size());
      CHECK(equal(read.batch.samples[s].stop_ids, lists.stop_ids));
    }
    for (const size_t size : {size_t{0}, bytes.size() / 2, bytes.size() - 1})
      CHECK_FALSE(read_batch(std::span(bytes).first(size), read));
    bytes.push_back({});
    CHECK_FALSE(read_batch(bytes, read));
  }
}

TEST_CASE("a result and the first message read back are those written") {
  const mkrt::StepResult result{{0, 1, 3}, {5, 6, 7}, {{-0.5f, {}, {}, 7}, {}, {}}, 2, {{-1.5f, {}, {}, 2}},
                                {0, 1}};
  Bytes bytes;
  write_result(result, bytes);
  mkrt::StepResult read;
  REQUIRE(read_result(bytes, read));
  CHECK(read.begin == result.begin);
  CHECK(read.ids == result.ids);
  CHECK(read.logprobs.at(0).sampled == -0.5f);
  CHECK(read.logprobs.at(0).rank == 7);
  CHECK(read.logprobs.size() == 3);
  CHECK(read.steps == 2);
  REQUIRE(read.scored.size() == 1);
  CHECK(read.scored[0].sampled == -1.5f);
  CHECK(read.finite == result.finite);
  DeviceReady ready{
      {.max_tokens = 8, .max_requests = 4, .context = 64, .vocab = 1000, .page_size = 16, .pages = 8},
      "cpu",
      {1, 2},
      true};
  write_ready(ready, bytes);
  DeviceReady ready_read;
  REQUIRE(read_ready(bytes, ready_read));
  CHECK(ready_read.limits == ready.limits);
  CHECK(ready_read.device == "cpu");
  CHECK(ready_read.end_ids == ready.end_ids);
  CHECK(ready_read.traced);
  CHECK_FALSE(read_ready(std::span(bytes).first(bytes.size() - 1), ready_read));
}

TEST_CASE("messages reach the other end, in both directions") {
  Pair pair = make_pair();
  Message message;
  CHECK(pair.server.receive(message, milliseconds(1)) == Receive::kLate);
  REQUIRE(pair.server.send(MessageKind::kBatch, bytes_of("a batch")).ok());
  REQUIRE(pair.device.receive(message, milliseconds(1000)) == Receive::kMessage);
  CHECK(message.kind == MessageKind::kBatch);
  CHECK(text_of(message) == "a batch");
  REQUIRE(pair.device.send(MessageKind::kError, {}).ok());
  REQUIRE(pair.server.receive(message, milliseconds(1000)) == Receive::kMessage);
  CHECK(message.kind == MessageKind::kError);
  CHECK(message.bytes.empty());
}

TEST_CASE("the end of one side is seen by the other") {
  Pair pair = make_pair();
  {
    const DeviceLink gone = std::move(pair.device);
  }
  Message message;
  CHECK(pair.server.receive(message, milliseconds(1000)) == Receive::kClosed);
  const Status sent = pair.server.send(MessageKind::kBatch, bytes_of("x"));
  REQUIRE_FALSE(sent.ok());
  CHECK(sent.error().message == "mkc: error: the link to the device's process: Broken pipe");
}

}  // namespace
}  // namespace mkc
