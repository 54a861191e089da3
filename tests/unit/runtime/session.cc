#include "runtime/session/session.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "runtime/base/npy.h"
#include "runtime/engine/sampler.h"
#include "tests/unit/runtime/fake_device.h"
#include "tests/unit/temp_dir.h"

namespace mkrt {
namespace {

using namespace test;

TEST_CASE("a prompt goes in by chunks at growing positions, then one token a step") {
  FakeDevice device;
  Session session = opened(device);
  GenerateOptions options;
  options.max_new_tokens = 3;
  std::vector<float> logits;
  options.logits = &logits;
  std::vector<int32_t> seen;
  options.on_token = [&](int32_t token) { return seen.push_back(token), true; };
  const std::vector<int32_t> prompt{1, 2, 3, 4, 5, 6};
  const auto tokens = generate(session, prompt, options);
  REQUIRE_MESSAGE(tokens.ok(), tokens.error().message);
  CHECK(tokens.value() == std::vector<int32_t>{1, 7, 4});  // each id is (token + position) mod 10
  CHECK(seen == tokens.value());
  REQUIRE(device.steps.size() == 4);
  const std::vector<std::pair<int32_t, int32_t>> expected{{4, 4}, {2, 6}, {1, 7}, {1, 8}};  // T and kv_len
  for (size_t i = 0; i < 4; ++i) {
    CHECK(device.steps[i].symbol[1] == expected[i].first);
    CHECK(device.steps[i].symbol[0] == 1);
    CHECK(device.lengths[i] == expected[i].second);
    CHECK(device.steps[i].serial == i);
  }
  CHECK(logits.size() == (prompt.size() + 3 - 1) * kVocab);
  CHECK(logits[7 * kVocab + 4] == 50.0f);
  CHECK(session.position() == 8);
}

TEST_CASE("generation ends at a stop id, which is kept, or when told to") {
  FakeDevice device;
  Session session = opened(device);
  GenerateOptions options;
  options.max_new_tokens = 8;
  options.stop_ids = {4};
  CHECK(generate(session, std::vector<int32_t>{1}, options).value() == std::vector<int32_t>{1, 2, 4});
}

TEST_CASE("sampling with a low temperature is greedy, and a seed gives the same samples") {
  FakeDevice device;
  GenerateOptions options;
  options.max_new_tokens = 5;
  options.sampling.temperature = 0.1f;
  Session a = opened(device);
  CHECK(generate(a, std::vector<int32_t>{1}, options).value() == std::vector<int32_t>{1, 2, 4, 7, 1});
  options.sampling.temperature = 1000;
  Session b = opened(device), c = opened(device);
  const auto once = generate(b, std::vector<int32_t>{1}, options).value();
  CHECK(generate(c, std::vector<int32_t>{1}, options).value() == once);
  CHECK(once != std::vector<int32_t>{1, 2, 4, 7, 1});
}

TEST_CASE("each new token is sampled from the logits before it, at its position, with all before it seen") {
  FakeDevice device;
  Session session = opened(device);
  std::vector<float> logits;
  std::vector<Sampled> samples;
  GenerateOptions options;
  options.max_new_tokens = 5;
  options.sampling = {1.5f, 30, 8, 0.95f, 0.01f, 1 + 3, 7, 100};
  options.logits = &logits, options.samples = &samples;
  const std::vector<int32_t> prompt{1, 2, 3, 4, 5};
  const std::vector<int32_t> tokens = generate(session, prompt, options).value();
  REQUIRE(samples.size() == 5);
  SeenIds seen{0b111110};
  for (size_t i = 0; i < 5; ++i, ++options.sampling.position) {
    const std::span row = std::span(logits).subspan((prompt.size() - 1 + i) * kVocab, kVocab);
    CHECK(samples[i] == sample(row, options.sampling, {seen}));
    CHECK(samples[i].top.size() == 3);
    CHECK(tokens[i] == samples[i].id);
    see(seen, static_cast<uint32_t>(tokens[i]));
  }
}

TEST_CASE("what cannot be fed is refused before anything runs") {
  FakeDevice device;
  Session session = opened(device);
  CHECK(error_of(session.step({})) == "step: error: 0 tokens, expected 1 to 4");
  CHECK(error_of(session.step(std::vector<int32_t>(5))) == "step: error: 5 tokens, expected 1 to 4");
  CHECK(error_of(session.step(std::vector<int32_t>{1, 10})) ==
        "step: error: token 1 has the id 10, expected 0 to 9");
  CHECK(error_of(session.step(std::vector<int32_t>{-1})) ==
        "step: error: token 0 has the id -1, expected 0 to 9");
  GenerateOptions options;
  CHECK(error_of(generate(session, {}, options)) == "prompt: error: is empty, expected at least one token");
  options.max_new_tokens = 4;
  CHECK(error_of(generate(session, std::vector<int32_t>(10), options)) ==
        "prompt: error: 10 tokens and 4 new ones need 13 positions, the context has 12");
  options.sampling.temperature = -1;
  CHECK(error_of(generate(session, std::vector<int32_t>(1), options)) ==
        "temperature: error: is -1, expected 0 to 1000000");
  CHECK(device.steps.empty());
  CHECK(session.step(std::vector<int32_t>(4)).ok());
  CHECK(session.step(std::vector<int32_t>(4)).ok());
  CHECK(session.step(std::vector<int32_t>(4)).ok());
  CHECK(error_of(session.step(std::vector<int32_t>{1})) ==
        "step: error: 1 tokens at position 12 exceed the context of 12");
}

// TwoRequests is a step of a request with two rows and one with a row.
struct TwoRequests {
  std::vector<int32_t> tokens{1, 2, 9}, row_begin{0, 2, 3}, kv_len{5, 3}, begin{0, 1, 2}, index{3, 1};
  Batch batch(std::span<const Samples> samples = {}) const {
    return {tokens, row_begin, kv_len, {begin, index}, samples};
  }
};

SessionOptions with_pages(uint32_t pages) {
  SessionOptions options;
  options.cache.pages = pages;
  return options;
}

TEST_CASE("a step of several requests gives each the successor of its last row") {
  const TwoRequests two;
  FakeDevice device;
  Session session = opened(device, with_pages(4));
  StepResult result;
  REQUIRE(session.step(two.batch(), result).ok());
  CHECK(result.ids == std::vector<int32_t>{(2 + 4) % 10, (9 + 2) % 10});
  CHECK(result.begin == std::vector<uint32_t>{0, 1, 2});
  CHECK(device.pages == std::vector<int32_t>{3});
  const std::vector<int32_t> twice{3, 3};
  const Status refused = session.step({two.tokens, two.row_begin, two.kv_len, {two.begin, twice}}, result);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("page") != std::string::npos);
  CHECK(device.steps.size() == 1);
}

TEST_CASE("a step tells which requests have no finite greatest logit, and their ids stay ids") {
  const TwoRequests two;
  FakeDevice device;
  Session session = opened(device, with_pages(4));
  StepResult result;
  REQUIRE(session.step(two.batch(), result).ok());
  CHECK(result.finite == std::vector<uint32_t>(2, 1));
  device.marks = kNotFinite;
  std::vector<Samples> samples(2);
  samples[0].limit = 0;
  CHECK(session.step(two.batch(samples), result).ok());
  CHECK(result.ids == std::vector<int32_t>{(9 + 2) % 10});
  CHECK(result.finite == std::vector<uint32_t>{0, 0});
  bool not_finite = false;
  GenerateOptions options;
  options.max_new_tokens = 2, options.not_finite = &not_finite;
  CHECK((generate(session, std::vector<int32_t>{1}, options).ok() && not_finite));
}

TEST_CASE("each request of a step is sampled as it asks, and one whose prompt goes on is not") {
  const TwoRequests two;
  FakeDevice device;
  Session session = opened(device, with_pages(4));
  std::vector<Samples> samples(2);
  samples[0].limit = 0;
  const SeenIds seen{1u << 1};
  samples[1].sampling.repetition_penalty = 1000;
  samples[1].sampling.logprobs = 1 + 2;
  samples[1].seen = seen;
  StepResult result;
  REQUIRE(session.step(two.batch(samples), result).ok());
  CHECK(result.begin == std::vector<uint32_t>{0, 0, 1});
  CHECK(result.ids == std::vector<int32_t>{1});  // the penalised logit 0.05 is still the greatest
  std::vector<float> row(kVocab);
  row[1] = 50;
  std::vector<Sampled> sampled;
  add_samples(result, 1, samples[1].sampling, kVocab, sampled);
  CHECK(sampled == std::vector{sample(row, samples[1].sampling, {seen})});
  samples.pop_back();
  CHECK(session.step(two.batch(samples), result).error().message ==
        "step: error: samples: found 1 entries, expected none or 2, one for each request");
}

// The logits are 50 at the successor of a request's last token, and 0 elsewhere.
TEST_CASE("scored rows have the log-probabilities of their own logits") {
  const TwoRequests two;
  FakeDevice device;
  Session session = opened(device, with_pages(4));
  const std::vector<ScoredRow> scored{{0, 4, 1}, {0, 5, 0}, {2, 7, 20}};
  Batch batch = two.batch();
  batch.scored = scored;
  StepResult result;
  REQUIRE(session.step(batch, result).ok());
  REQUIRE(result.scored.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    const auto row = static_cast<size_t>(scored[i].row);
    std::vector<float> logits(kVocab);  // (token + position) mod 10 has the logit 50
    logits[static_cast<size_t>((two.tokens[row] + (row == 0 ? 3 : 2)) % 10)] = 50;
    const size_t top = std::min<size_t>(scored[i].top, kVocab);
    CHECK(from_abi(scored[i].id, result.scored[i], top) == score(logits, scored[i].id, scored[i].top));
  }
  CHECK(session.begin_step(batch).error().message ==
        "step: error: scored: found 3 rows, expected none but in step()");
  REQUIRE(session.step(two.batch(), result).ok());
  CHECK(result.scored.empty());
}

TEST_CASE("the requests of a step have biases and allowed ids of their own, or none") {
  FakeDevice device;
  Session session = opened(device, with_pages(8));
  const std::vector<int32_t> tokens{1, 1}, row_begin{0, 1, 2}, kv_len{1, 1}, begin{0, 1, 2}, index{3, 1};
  const std::vector<MkBias> raised{{3, 20, 31}, {7, 50, 0}}, forbidden{{1, -INFINITY, 0}, {4, 0, 1}};
  const SeenIds allowed{1u << 8 | 1u << 6};
  StepResult result;
  const auto ids = [&](const Samples& first, const Samples& second) {
    const std::vector<Samples> samples{first, second};
    const Status status = session.step({tokens, row_begin, kv_len, {begin, index}, samples}, result);
    REQUIRE_MESSAGE(status.ok(), status.error().message);
    return result.ids;
  };
  CHECK(ids({.biases = raised}, {}) == std::vector<int32_t>{3, 1});
  CHECK(ids({.biases = raised}, {.biases = forbidden}) == std::vector<int32_t>{3, 4});
  CHECK(ids({}, {.biases = forbidden, .allowed = allowed}) == std::vector<int32_t>{1, 6});
  CHECK(ids({.allowed = allowed}, {.biases = raised, .allowed = allowed}) == std::vector<int32_t>{6, 6});
  CHECK(ids({}, {}) == std::vector<int32_t>{1, 1});
}

TEST_CASE("a cache that overlaps itself, or has too few addresses, is refused") {
  FakeDevice device;
  const auto opened_with = [&](auto edit) {
    SessionOptions options;
    CacheSpace space{16, 2, {16 * 2 * 16, 2 * 16, 16}, {4096, 8192}};
    edit(space);
    options.cache.space = space;
    return error_of(Session::open(artefact(), {}, "c0", device, options));
  };
  CHECK(opened_with([](CacheSpace&) {}) == "");
  CHECK(opened_with([](CacheSpace& s) { s.page_size = 8; }) ==
        "cache: error: the page size is 8, expected 16, 32 or 64");
  CHECK(opened_with([](CacheSpace& s) { s.base.pop_back(); }) ==
        "cache: error: 1 addresses, the model has 2 caches");
  CHECK(opened_with([](CacheSpace& s) {
          s.strides.head = 12;
        }).starts_with("cache: error: strides of 512 bytes"));
  CHECK(opened_with([](CacheSpace& s) { s.strides.page = 508; }).starts_with("cache: error: strides of 508"));
  CHECK(opened_with([](CacheSpace& s) { s.strides.page = 514; }) ==
        "cache: error: a stride is 514 bytes, expected a multiple of 16");
  CHECK(opened_with([](CacheSpace& s) { s.base[1] = 4104; }) ==
        "cache: error: the address of v is 4104, expected a multiple of 16 that is not 0");
  CHECK(opened_with([](CacheSpace& s) { s.base[1] = 0; }) ==
        "cache: error: the address of v is 0, expected a multiple of 16 that is not 0");
}

TEST_CASE("the positions of a head lie together in a processor's own caches") {
  Manifest m;
  m.caches.push_back({.name = "k", .element = Element::kBf16, .heads = 8, .head_dim = 128});
  for (const char* target : {"x86-64-v3", "x86-64-avx512", "x86-64-v4", "x86-64-amx"}) {
    m.target = target;
    CHECK(cache_strides(m, best_form(m), 16) == CacheStrides{32768, 256, 4096});
  }
  m.target = "sm_90a";
  CHECK(cache_strides(m, best_form(m), 16) == CacheStrides{32768, 2048, 256});
}

TEST_CASE("scales of an 8-bit cache are the checkpoint's, 1 where it has none, or the caller's") {
  FakeDevice device;
  Manifest of_e4m3 = manifest();
  of_e4m3.caches = {{"k", Element::kE4m3, 2, 4, "ks"}, {"v", Element::kE4m3, 2, 4, "vs"}};
  const Artefact a = made_artefact(of_e4m3);
  const std::vector<float> stored{0.5f, 0.25f};
  const auto opened_with = [&](const std::vector<int64_t>& shape, size_t count, const char* dtype = "F32") {
    const std::span bytes = std::as_bytes(std::span(stored)).first(count * sizeof(float));
    return Session::open(a, Checkpoint{"dir", {{"vs", dtype, shape, "f", bytes}}, {}}, "c0", device);
  };
  const auto scales_of = [&](Session& session) {
    REQUIRE((session.step(std::vector<int32_t>{1}).ok() && session.position() == 1));
    const auto* records = reinterpret_cast<const MkCache*>(device.session.caches);
    const auto* k = reinterpret_cast<const float*>(records[0].scales);
    const auto* v = reinterpret_cast<const float*>(records[1].scales);
    return std::vector<float>{k[0], k[1], v[0], v[1]};
  };
  Result<Session> each = opened_with({2}, 2), common = opened_with({}, 1);
  REQUIRE(each.ok());
  REQUIRE(common.ok());
  CHECK(scales_of(each.value()) == std::vector<float>{1, 1, 0.5f, 0.25f});
  CHECK(scales_of(common.value()) == std::vector<float>{1, 1, 0.5f, 0.5f});
  const std::vector<float> own{4, 3, 2, 1}, bad{4, 3, 0, 1};
  REQUIRE(each.value().use_scales(own).ok());
  CHECK(each.value().use_scales(bad).error().message ==
        "cache: error: the scale of head 0 of v is 0, expected a positive number");
  CHECK(each.value().use_scales(std::span(own).first(3)).error().message ==
        "cache: error: found 3 scales, expected 2 caches of 2 heads");
  CHECK(scales_of(each.value()) == own);
  REQUIRE(each.value().use_cache({32, 2, CacheForm::kHnd, {}}).ok());
  CHECK(scales_of(each.value()) == own);
  CHECK(error_of(opened_with({3}, 2)) == "f: error: tensor \"vs\" is F32 [3], expected 1 or 2 scales");
  CHECK(error_of(opened_with({2}, 2, "I32")) == "f: error: tensor \"vs\" is I32 [2], expected 1 or 2 scales");
  Session plain = opened(device);
  CHECK(plain.use_scales(own).error().message ==
        "cache: error: found 4 scales, the model has no caches of e4m3");
}

TEST_CASE("a fault in the kernel names worker, task, event and counts, and ends the session") {
  FakeDevice device;
  Session session = opened(device);
  device.fault = {2, 1, 1, 7, 3, 5, 6, 0};
  CHECK(error_of(session.step(std::vector<int32_t>{1})) ==
        "fake: error: worker 1 task l0.attend[7] waited for event l0.parts[1] beyond 10000 ms: seen 5, "
        "expected 6");
  CHECK(error_of(session.step(std::vector<int32_t>{1})) ==
        "step: error: the session had a fault and cannot go on");
  Session other = opened(device);
  device.fault = {2, 0, 0, 3, kRingCell, 14, 0, 0};
  CHECK(error_of(other.step(std::vector<int32_t>{1})) ==
        "fake: error: worker 0 at task l0.q[3] waited for stage 14 of its ring beyond 10000 ms");
  Session third = opened(device);
  device.fault = {2, 1, 0, 3, kClaimedCell, 5, 0, 0};
  CHECK(error_of(third.step(std::vector<int32_t>{1})) ==
        "fake: error: worker 1 after task l0.q[3] waited for task 5 that its loader claims beyond 10000 ms");
}

TEST_CASE("a step whose logits cannot be read ends the session") {
  FakeDevice device;
  Session session = opened(device);
  const std::vector<int32_t> tokens{1, 2, 3};
  std::vector<float> logits(tokens.size() * kVocab);
  StepResult result;
  REQUIRE(session.step(tokens, {}, result, logits.data()).ok());
  device.failing = logits.size() * sizeof(float);
  CHECK(error_of(session.step(tokens, {}, result, logits.data())) == "fake: error: cannot read");
  device.failing = UINT64_MAX;
  CHECK(error_of(session.step(tokens)) == "step: error: the session had a fault and cannot go on");
}

TEST_CASE("an artefact that does not fit the checkpoint, the runtime or itself is refused") {
  FakeDevice device;
  const auto open_with = [&](auto edit, SealCheck seal = SealCheck::kRequired) {
    Artefact a = artefact();
    edit(a);
    SessionOptions options;
    options.seal = seal;
    return error_of(Session::open(a, Checkpoint{"dir", {}, {}}, "c0", device, options));
  };
  const auto made_with = [&](auto edit) {
    Manifest m = manifest();
    edit(m);
    return error_of(Session::open(made_artefact(m), Checkpoint{"dir", {}, {}}, "c0", device));
  };
  CHECK(made_with([](Manifest& m) { m.config_hash = "77"; }) ==
        "dir/config.json: error: has the hash c0, the artefact was made for 77");
  CHECK(made_with([](Manifest& m) { m.outputs.pop_back(); }).starts_with("manifest: error: expected"));
  CHECK(made_with([](Manifest& m) { m.workspace_bytes = 1 << 21; }) == "fake: error: no memory");
  const auto unsealed = SealCheck::kSkipped;
  const auto change = [](Artefact& a) { a.plan[0] = std::byte{0}; };
  CHECK(open_with(change).starts_with("seal: error: manifest and plan have the hash "));
  CHECK(open_with(change, unsealed) == "plan: error: does not begin with a plan's header");
  CHECK(open_with([](Artefact& a) { a.manifest.model = "x"; }).starts_with("seal: error: manifest and plan"));
  CHECK(open_with([](Artefact& a) { a.manifest.model = "x"; }, unsealed) == "");
  CHECK(device.blocks.size() > 0);
}

TEST_CASE("a session that fails to open takes its artefact off the device, unless another one has opened") {
  FakeDevice device;
  const auto fails = [&] {
    Manifest large = manifest();
    large.workspace_bytes = 1 << 21;
    return error_of(Session::open(made_artefact(large), Checkpoint{"dir", {}, {}}, "c0", device)) ==
           "fake: error: no memory";
  };
  CHECK(fails());
  CHECK(!device.loaded());
  {
    const Session session = opened(device);
    CHECK(fails());
    CHECK(device.loads == 2);
  }
  CHECK(fails());
  CHECK(device.loads == 3);
}

TEST_CASE("logits are written as NumPy reads them") {
  const test::TempDir dir;
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  REQUIRE(write_npy(dir.path + "/a.npy", values, 3).ok());
  std::ifstream file(dir.path + "/a.npy", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  REQUIRE(bytes.size() == 128 + 24);
  CHECK(bytes.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  CHECK(bytes.find("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }") == 10);
  CHECK(bytes[127] == '\n');
  CHECK(std::memcmp(bytes.data() + 128, values.data(), 24) == 0);
  CHECK(!write_npy(dir.path + "/none/a.npy", values, 3).ok());
}

}  // namespace
}  // namespace mkrt
