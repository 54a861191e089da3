// These tests call the C interface, on the processor and, where a case says so, on the emulator. The compiler
// is linked into the same process.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/artefact/seal.h"
#include "runtime/base/file.h"
#include "runtime/c_api/mkrt.h"
#include "runtime/session/session.h"
#include "tests/unit/temp_dir.h"
#include "tools/artefact.h"
#include "tools/native.h"

namespace mkc {
namespace {

const std::string kDirectory = MKC_SOURCE_DIR "/tests/fixtures/models/llama";

enum class On : uint8_t { kProcessor, kEmulator };

// Compiled is a model for the processor or the emulator.
struct Compiled {
  HostArtefact host;             // without a kernel for the processor
  std::vector<std::byte> bytes;  // the shared object for the processor
  mkrt::Checkpoint checkpoint;
};

const Compiled& compiled(On on, Mode mode) {
  static std::map<std::pair<On, Mode>, Compiled> all;
  const auto [at, added] = all.try_emplace({on, mode});
  Compiled& made = at->second;
  if (!added) return made;
  ModelRequest request{kDirectory, {}, ""};
  request.options.target = on == On::kProcessor ? kThisProcessor : "emulator";
  request.mode = mode;
  Result<Compilation> c = open_model(request, true);
  REQUIRE(c.ok());
  if (on == On::kProcessor) {
    Result<BuiltCubin> object = build_shared_object(c.value(), {});
    REQUIRE_MESSAGE(object.ok(), object.error().message);
    made.bytes = std::move(object.value().bytes);
    made.host.artefact = mkrt::read_artefact(made.bytes, "compiled").value();
  } else {
    REQUIRE(run_passes(c.value()).ok());
    made.host = std::move(build_for_emulator(c.value()).value());
  }
  made.checkpoint = std::move(*c.value().checkpoint);
  return made;
}

mkrt_device* open_device(On on, const mkrt::StepKernels& kernels) {
  if (on == On::kProcessor) return mkrt_open_processor();
  const auto pack = reinterpret_cast<void (*)(const void*, uint32_t, uint32_t)>(kernels.pack);
  if (kernels.step)
    return mkrt_open_emulator(reinterpret_cast<void (*)(const void*, const void*)>(kernels.step), pack, 0);
  return mkrt_open_emulator_kernels(
      reinterpret_cast<void (*const*)(const void*, const void*, uint32_t)>(kernels.grids.data()),
      static_cast<uint32_t>(kernels.grids.size()), pack, 0);
}

mkrt_session* open_session(mkrt_device* device, const mkrt::Artefact& artefact,
                           const std::string& checkpoint = kDirectory) {
  const std::string manifest = mkrt::to_json(artefact.manifest);
  return mkrt_open_session_from_memory(device, manifest.data(), manifest.size(), artefact.plan.data(),
                                       artefact.plan.size(), artefact.image.data(), artefact.image.size(),
                                       checkpoint.c_str());
}

// Opened is a device and a session for a model, opened through the C interface.
struct Opened {
  On on;
  const Compiled& c;
  mkrt_device* device;
  mkrt_session* session;

  explicit Opened(On where = On::kProcessor, Mode mode = Mode::kMegakernel)
      : on(where), c(compiled(where, mode)), device(open_device(where, c.host.kernel.entries)) {
    REQUIRE(device);
    session = open_session(device, c.host.artefact);
    REQUIRE_MESSAGE(session, mkrt_error());
  }
  ~Opened() {
    mkrt_close_session(session);
    mkrt_close_device(device);
  }
  // Returns the greedy tokens behind a prompt, and the logits of all fed positions, from the C++ interface.
  std::vector<int32_t> generate(const std::vector<int32_t>& prompt, uint32_t tokens,
                                std::vector<float>* logits = nullptr) const {
    const auto own =
        on == On::kProcessor ? mkrt::open_processor() : mkrt::open_emulator(c.host.kernel.entries, {});
    auto opened =
        mkrt::Session::open(c.host.artefact, c.checkpoint, c.host.artefact.manifest.config_hash, *own);
    REQUIRE_MESSAGE(opened.ok(), opened.error().message);
    mkrt::GenerateOptions options;
    options.max_new_tokens = tokens;
    options.logits = logits;
    const auto made = mkrt::generate(opened.value(), prompt, options);
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    return made.value();
  }
};

TEST_CASE("steps through the C interface are those of a session, and can be taken back") {
  for (const On on : {On::kProcessor, On::kEmulator}) {
    const Opened c(on);
    CHECK(std::string(mkrt_device_name(c.device)) == (on == On::kProcessor ? "cpu" : "emulator"));
    const std::vector<int32_t> prompt{5, 17, 3};
    std::vector<float> expected;
    const std::vector<int32_t> tokens = c.generate(prompt, 3, &expected);
    const uint32_t vocab = mkrt_vocab(c.session);
    for (int round = 0; round < 2; ++round) {
      std::vector<float> logits(prompt.size() * vocab);
      int32_t next = -1;
      REQUIRE_MESSAGE(mkrt_step(c.session, prompt.data(), 3, logits.data(), &next) == 0, mkrt_error());
      CHECK(next == tokens[0]);
      CHECK(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)) == 0);
      REQUIRE(mkrt_step(c.session, &next, 1, nullptr, &next) == 0);
      CHECK(next == tokens[1]);
      CHECK(mkrt_position(c.session) == 4);
      CHECK(mkrt_rewind(c.session, 0) == 0);
    }
  }
}

// Runs three steps of all prompts together, over pages in falling order. The result is all sampled tokens,
// step by step.
std::vector<int32_t> run_batch(mkrt_session* session, const std::vector<std::vector<int32_t>>& prompts) {
  std::vector<std::vector<int32_t>> fed = prompts;
  std::vector<int32_t> all;
  for (int step = 0; step < 3; ++step) {
    std::vector<int32_t> tokens, row_begin{0}, kv_len, page_begin{0}, page_index, next(prompts.size());
    for (size_t b = 0; b < prompts.size(); ++b) {
      tokens.insert(tokens.end(), step == 0 ? fed[b].begin() : fed[b].end() - 1, fed[b].end());
      row_begin.push_back(static_cast<int32_t>(tokens.size()));
      kv_len.push_back(static_cast<int32_t>(fed[b].size()));
      for (int32_t page : {5, 2}) page_index.push_back(page - static_cast<int32_t>(b));
      page_begin.push_back(static_cast<int32_t>(page_index.size()));
    }
    const mkrt_batch batch{sizeof(mkrt_batch), static_cast<uint32_t>(prompts.size()),
                           tokens.data(),      row_begin.data(),
                           kv_len.data(),      page_begin.data(),
                           page_index.data()};
    std::vector<float> logits(tokens.size() * mkrt_vocab(session));
    REQUIRE_MESSAGE(mkrt_step_batch(session, &batch, logits.data(), next.data()) == 0, mkrt_error());
    for (size_t b = 0; b < prompts.size(); ++b) fed[b].push_back(next[b]);
    all.insert(all.end(), next.begin(), next.end());
  }
  return all;
}

TEST_CASE("batches run over a cache of the session's own and over the caller's, in every form") {
  const Opened c;
  const std::vector<std::vector<int32_t>> prompts{{5, 17, 3}, {9, 1, 33, 70, 12, 8}};
  std::vector<std::vector<int32_t>> alone;
  for (const auto& prompt : prompts) alone.push_back(c.generate(prompt, 3));
  std::vector<int32_t> expected;
  for (size_t i = 0; i < 3; ++i)
    for (const auto& tokens : alone) expected.push_back(tokens[i]);
  CHECK(std::pair(mkrt_page_size(c.session), mkrt_pages(c.session)) == std::pair(16u, 128u / 16));
  CHECK(run_batch(c.session, prompts) == expected);
  for (const mkrt_form form : {MKRT_NHD, MKRT_HND, MKRT_PACKED}) {
    REQUIRE_MESSAGE(mkrt_make_cache(c.session, 32, 6, form) == 0, mkrt_error());
    CHECK(std::pair(mkrt_page_size(c.session), mkrt_pages(c.session)) == std::pair(32u, 6u));
    CHECK(run_batch(c.session, prompts) == expected);
  }
  // The caller's cache has the layout of a serving engine. A page holds all layers, with keys and values in
  // pieces of their own.
  const mkrt::Manifest& m = c.c.host.artefact.manifest;
  const uint64_t vector = m.caches[0].head_dim * 2, piece = 16 * m.caches[0].heads * vector;
  const auto caches = static_cast<uint32_t>(m.caches.size());
  std::vector<std::byte> memory(6 * caches * piece);
  std::vector<uint64_t> base;
  for (uint32_t i = 0; i < caches; ++i) base.push_back(reinterpret_cast<uint64_t>(memory.data()) + i * piece);
  CHECK(caches == mkrt_caches(c.session));
  REQUIRE_MESSAGE(mkrt_use_cache(c.session, 16, 6, caches * piece, m.caches[0].heads * vector, vector,
                                 base.data(), caches) == 0,
                  mkrt_error());
  CHECK(run_batch(c.session, prompts) == expected);
  CHECK(std::any_of(memory.begin(), memory.end(), [](std::byte b) { return b != std::byte{0}; }));
  CHECK(mkrt_use_cache(c.session, 16, 6, caches * piece, m.caches[0].heads * vector, vector, base.data(),
                       caches - 1) == MKRT_BAD_ARGUMENT);
  CHECK(mkrt_make_cache(c.session, 17, 6, MKRT_NHD) == MKRT_BAD_ARGUMENT);
  CHECK(std::string(mkrt_error()) == "cache: error: the page size is 17, expected 16, 32 or 64");
  CHECK(mkrt_make_cache(c.session, 16, 0, MKRT_NHD) == MKRT_BAD_ARGUMENT);
  CHECK(run_batch(c.session, prompts) == expected);  // a refused call leaves the cache as it was
  const float scale = 1;
  CHECK(mkrt_use_scales(c.session, &scale, 1) == MKRT_BAD_ARGUMENT);
  CHECK(std::string(mkrt_error()) == "cache: error: found 1 scales, the model has no caches of e4m3");
}

TEST_CASE("samples come with a step, several in one launch, alone and in a batch") {
  const Opened c;
  const std::vector<int32_t> prompt{5, 17, 3};
  const std::vector<int32_t> alone = c.generate(prompt, 6);
  std::vector<int32_t> ids(8);
  mkrt_samples samples{};
  samples.size = sizeof(samples);
  samples.ids = ids.data();
  samples.limit = 6;
  REQUIRE_MESSAGE(mkrt_sample(c.session, prompt.data(), 3, &samples) == 0, mkrt_error());
  CHECK(std::vector(ids.begin(), ids.begin() + samples.count) == alone);
  CHECK(mkrt_position(c.session) == 3 + 5);

  mkrt_samples two[2] = {samples, samples};
  std::vector<int32_t> others(8);
  std::vector<mkrt_logprobs> logprobs(8);
  mkrt_sampling warm = MKRT_GREEDY;
  warm.temperature = 1;
  warm.logprobs = 1 + 2;
  two[1].sampling = &warm;
  two[1].logprobs_size = sizeof(mkrt_logprobs);
  two[1].ids = others.data();
  two[1].logprobs = logprobs.data();
  two[0].stop_ids = &alone[2];
  two[0].stop_count = 1;
  const std::vector<int32_t> tokens{5, 17, 3, 5, 17, 3}, row_begin{0, 3, 6}, kv_len{3, 3}, begin{0, 1, 2},
      index{4, 2};
  const mkrt_batch batch{sizeof(mkrt_batch), 2,           tokens.data(), row_begin.data(), kv_len.data(),
                         begin.data(),       index.data()};
  REQUIRE_MESSAGE(mkrt_sample_batch(c.session, &batch, two) == 0, mkrt_error());
  CHECK(two[0].count == std::find(alone.begin(), alone.end(), alone[2]) - alone.begin() + 1);
  CHECK(std::equal(ids.begin(), ids.begin() + two[0].count, alone.begin()));
  CHECK(two[1].count == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(logprobs[i].sampled <= logprobs[i].top[0]);
    CHECK(logprobs[i].top[1] <= logprobs[i].top[0]);
  }
  CHECK(logprobs[0].top_id[0] == static_cast<uint32_t>(alone[0]));
  two[1].logprobs = nullptr;
  CHECK(mkrt_sample_batch(c.session, &batch, two) == MKRT_BAD_ARGUMENT);
  CHECK(std::string(mkrt_error()) == "mkrt: error: logprobs is NULL");
}

TEST_CASE("kernels of grids give what the one kernel does") {
  for (const On on : {On::kProcessor, On::kEmulator}) {
    const Opened c(on, Mode::kKernels), one(on);
    const std::vector<int32_t> prompt{5, 17, 3};
    std::vector<float> expected, logits(prompt.size() * mkrt_vocab(c.session));
    const std::vector<int32_t> tokens = one.generate(prompt, 2, &expected);
    int32_t next = -1;
    REQUIRE_MESSAGE(mkrt_step(c.session, prompt.data(), 3, logits.data(), &next) == 0, mkrt_error());
    CHECK(next == tokens[0]);
    CHECK(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)) == 0);
  }
  void (*const none[1])(const void*, const void*, uint32_t) = {nullptr};
  mkrt_device* empty = mkrt_open_emulator_kernels(none, 1, [](const void*, uint32_t, uint32_t) {}, 0);
  CHECK(!open_session(empty, compiled(On::kEmulator, Mode::kKernels).host.artefact));
  CHECK(std::string(mkrt_error()).starts_with("emulator: error: no kernel for grids of kind "));
  mkrt_close_device(empty);
}

TEST_CASE("a step in two parts gives what it gives in one, two of them under way") {
  const Opened c;
  const std::vector<int32_t> prompt{5, 17, 3};
  const std::vector<int32_t> alone = c.generate(prompt, 4);
  const int32_t begin[] = {0, 1, 2}, one[] = {0, 1}, pages[] = {4, 2};
  const int32_t first_rows[] = {5, 17}, first_len[] = {2}, last_len[] = {3}, two_rows[] = {0, 2};
  // The prompt goes in two steps, of which the first samples nothing.
  const mkrt_batch first{sizeof(mkrt_batch), 1, first_rows, two_rows, first_len, one, pages};
  const mkrt_batch last{sizeof(mkrt_batch), 1, &prompt[2], one, last_len, one, pages};
  mkrt_samples none{}, samples{};
  none.size = samples.size = sizeof(samples);
  std::vector<int32_t> ids(3);
  samples.ids = ids.data();
  samples.limit = 3;
  int32_t next = 7;
  REQUIRE_MESSAGE(mkrt_begin_step(c.session, &first, &none) == 0, mkrt_error());
  REQUIRE_MESSAGE(mkrt_begin_step(c.session, &last, nullptr) == 0, mkrt_error());
  CHECK(mkrt_set_stream(c.session, nullptr) == MKRT_OUT_OF_ORDER);
  REQUIRE(mkrt_end_step(c.session, &next, &none) == 0);
  CHECK(next == -1);
  REQUIRE(mkrt_end_step(c.session, &next, nullptr) == 0);
  CHECK(next == alone[0]);
  float top = 0;
  std::memcpy(&top, reinterpret_cast<const float*>(mkrt_logits(c.session)) + next, sizeof(top));
  for (uint32_t i = 0; i < mkrt_vocab(c.session); ++i)
    CHECK(reinterpret_cast<const float*>(mkrt_logits(c.session))[i] <= top);

  // One launch samples three more tokens, beside another request.
  const int32_t rows[] = {next, 5, 17}, row_begin[] = {0, 1, 3}, kv_len[] = {4, 2};
  const mkrt_batch both{sizeof(mkrt_batch), 2, rows, row_begin, kv_len, begin, pages};
  mkrt_samples of_both[] = {samples, none};
  REQUIRE_MESSAGE(mkrt_begin_step(c.session, &both, of_both) == 0, mkrt_error());
  CHECK(mkrt_begin_step(c.session, &last, nullptr) == MKRT_OUT_OF_ORDER);
  of_both[0].limit = 2;
  CHECK(mkrt_end_step(c.session, nullptr, of_both) == MKRT_BAD_ARGUMENT);
  CHECK(std::string(mkrt_error()) == "mkrt: error: request 0 has sampled 3 tokens, there is room for 2");
  REQUIRE(mkrt_begin_step(c.session, &both, nullptr) == 0);
  mkrt_sampling asking = MKRT_GREEDY;
  asking.logprobs = 1;
  mkrt_logprobs untouched{};  // logprobs stay untouched unless the begin asked for them
  std::vector<int32_t> second(1);
  for (mkrt_samples& of : of_both) {
    of.limit = 1;
    of.sampling = &asking;
    of.ids = second.data();
    of.logprobs = &untouched;
    of.logprobs_size = sizeof(untouched);
  }
  REQUIRE(mkrt_end_step(c.session, nullptr, of_both) == 0);
  CHECK(of_both[0].count == 1);
  CHECK(untouched.sampled == 0.0f);
  CHECK(mkrt_end_step(c.session, nullptr, nullptr) == MKRT_OUT_OF_ORDER);
  CHECK(std::string(mkrt_error()) == "step: error: no step is under way");
}

TEST_CASE("what cannot be done is an error with a message, and changes nothing") {
  const Opened c;
  const auto fails = [&](bool failed, const std::string& message) {
    CHECK(failed);
    CHECK(std::string(mkrt_error()) == message);
  };
  const int32_t bad = static_cast<int32_t>(mkrt_vocab(c.session)), good = 1;
  fails(mkrt_step(c.session, &bad, 1, nullptr, nullptr),
        "step: error: token 0 has the id 96, expected 0 to 95");
  fails(mkrt_step(c.session, &good, 0, nullptr, nullptr), "step: error: 0 tokens, expected 1 to 64");
  fails(mkrt_step(c.session, nullptr, 1, nullptr, nullptr), "mkrt: error: tokens is NULL");
  fails(mkrt_rewind(c.session, 1), "mkrt: error: cannot go back to position 1, the session is at 0");
  fails(!mkrt_open_emulator(nullptr, nullptr, 0), "mkrt: error: kernel is NULL");
  fails(!mkrt_open_emulator([](const void*, const void*) {}, nullptr, 0), "mkrt: error: pack is NULL");
  const mkrt::Artefact& artefact = c.c.host.artefact;
  fails(!open_session(c.device, artefact, "/none"),
        "/none/model.safetensors: error: cannot open: No such file or directory");
  fails(!mkrt_open_session(c.device, "/none.so", kDirectory.c_str()),
        "/none.so: error: cannot open: No such file or directory");
  CHECK(!open_session(c.device, artefact, std::string(MKC_SOURCE_DIR) + "/tests/fixtures/models/qwen2"));
  CHECK(std::string(mkrt_error()).find("config.json: error: has the hash ") != std::string::npos);
  mkrt::Artefact other = artefact;
  other.manifest.schedule_hash = "77";
  CHECK(!open_session(c.device, other));
  CHECK(std::string(mkrt_error()).starts_with("seal: error: manifest and plan have the hash "));
  REQUIRE(mkrt_accept_unsealed(c.device, 1) == 0);
  CHECK(!open_session(c.device, other));  // the device has a kernel already
  REQUIRE(mkrt_accept_unsealed(c.device, 0) == 0);
  mkrt::seal(other);
  CHECK(!open_session(c.device, other));
  CHECK(std::string(mkrt_error()).ends_with("loaded, not 77: open another device for it"));
  CHECK(mkrt_position(c.session) == 0);
  CHECK(mkrt_step(c.session, &good, 1, nullptr, nullptr) == 0);
  CHECK(std::pair(mkrt_max_tokens(c.session), mkrt_context(c.session)) == std::pair(64u, 128u));
}

TEST_CASE("a shared object's file is an artefact, and no part of it can change") {
  const mkrt::test::TempDir dir;
  const Opened c;
  const std::vector<std::byte>& whole = c.c.bytes;
  const auto open = [&](mkrt_device* device, std::span<const std::byte> bytes) {
    const std::string path = dir.write("f.so", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    mkrt_session* session = mkrt_open_session(device, path.c_str(), kDirectory.c_str());
    if (!session) return dir.without_path(mkrt_error());
    mkrt_close_session(session);
    return std::string();
  };
  CHECK(open(c.device, whole) == "");
  CHECK(open(c.device, std::span(whole).first(63)) ==
        "f.so: error: not a cubin or shared object: expected a 64-bit ELF file");
  CHECK(open(c.device, std::span(whole).first(whole.size() - 1)) ==
        "f.so: error: truncated: its headers speak of bytes outside the file");
  std::vector<std::byte> changed = whole;
  changed[whole.size() / 2] ^= std::byte{1};
  const std::string seal = open(c.device, changed);
  CHECK_MESSAGE(seal.starts_with("f.so: error: seal: error: "), seal);
}

TEST_CASE("an artefact for another device is refused, and its device is as before") {
  mkrt::Artefact other = compiled(On::kProcessor, Mode::kMegakernel).host.artefact;
  other.manifest.target = "sm_90a";
  mkrt::seal(other);
  mkrt_device* device = mkrt_open_processor();
  CHECK(!open_session(device, other));
  CHECK(std::string(mkrt_error())
            .starts_with("cpu: error: the artefact is for sm_90a, the processor runs x86-64-"));
  CHECK(!open_session(device, compiled(On::kEmulator, Mode::kMegakernel).host.artefact));
  CHECK(std::string(mkrt_error()).starts_with("cpu: error: the artefact is for emulator, "));
  mkrt_session* session = open_session(device, compiled(On::kProcessor, Mode::kMegakernel).host.artefact);
  CHECK_MESSAGE(session, mkrt_error());
  mkrt_close_session(session);
  mkrt_close_device(device);
}

TEST_CASE("a session may be closed while another of its device has a step under way") {
  const Opened c;
  mkrt_session* other = open_session(c.device, c.c.host.artefact);
  REQUIRE_MESSAGE(other, mkrt_error());
  const std::vector<int32_t> prompt{5, 17, 3}, expected = c.generate(prompt, 2);
  const int32_t rows[] = {0, 3}, length = 3, one[] = {0, 1}, page = 0;
  const mkrt_batch batch{sizeof(mkrt_batch), 1, prompt.data(), rows, &length, one, &page};
  REQUIRE(mkrt_begin_step(c.session, &batch, nullptr) == 0);
  REQUIRE(mkrt_begin_step(other, &batch, nullptr) == 0);
  mkrt_close_session(other);
  int32_t next = -1;
  REQUIRE_MESSAGE(mkrt_end_step(c.session, &next, nullptr) == 0, mkrt_error());
  CHECK(next == expected[0]);
}

}  // namespace
}  // namespace mkc
