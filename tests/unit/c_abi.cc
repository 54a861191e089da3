// The C interface on the emulator, linked with the compiler into one process.
#include <doctest/doctest.h>

#include <cstring>

#include "runtime/mkrt.h"
#include "tests/e2e/pipeline.h"

namespace mkc {
namespace {

const std::string kDirectory = MKC_SOURCE_DIR "/tests/fixtures/models/llama";

// A model compiled in this process, and a device and session for it through the C interface.
struct Opened {
  HostArtefact host;
  mkrt_device* device = nullptr;
  mkrt_session* session = nullptr;

  Opened() {
    ModelRequest request{kDirectory, {}, ""};
    request.options.target = "emulator";
    Result<Compilation> c = open_model(request, true);
    REQUIRE(c.ok());
    REQUIRE(run_passes(c.value()).ok());
    host = std::move(build_for_emulator(c.value()).value());
    device = mkrt_open_emulator(reinterpret_cast<void (*)(const void*, const void*)>(host.kernel.entry), 0);
    REQUIRE(device);
    session = open(kDirectory.c_str());
    REQUIRE_MESSAGE(session, mkrt_error());
  }
  ~Opened() {
    mkrt_close_session(session);
    mkrt_close_device(device);
  }
  mkrt_session* open(const char* checkpoint) const {
    const std::string manifest = mkrt::to_json(host.artefact.manifest);
    return mkrt_open_session_from_memory(device, manifest.data(), manifest.size(), host.artefact.plan.data(),
                                         host.artefact.plan.size(), nullptr, 0, checkpoint);
  }
};

TEST_CASE("steps through the C interface are those of a session, and can be taken back") {
  const Opened c;
  CHECK(std::string(mkrt_device_name(c.device)) == "emulator");
  const std::vector<int32_t> prompt{5, 17, 3};
  const test::Model::Output expected = test::Model(kDirectory).generate(prompt, 3);
  const uint32_t vocab = mkrt_vocab(c.session);
  for (int round = 0; round < 2; ++round) {
    std::vector<float> logits(prompt.size() * vocab);
    int32_t next = -1;
    REQUIRE_MESSAGE(mkrt_step(c.session, prompt.data(), 3, logits.data(), &next) == 0, mkrt_error());
    CHECK(next == expected.tokens[0]);
    CHECK(std::memcmp(logits.data(), expected.logits.data(), logits.size() * sizeof(float)) == 0);
    REQUIRE(mkrt_step(c.session, &next, 1, nullptr, &next) == 0);
    CHECK(next == expected.tokens[1]);
    CHECK(mkrt_position(c.session) == 4);
    CHECK(mkrt_rewind(c.session, 0) == 0);
  }
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
  fails(mkrt_step(nullptr, &good, 1, nullptr, nullptr), "mkrt: error: session is NULL");
  fails(mkrt_rewind(c.session, 1), "mkrt: error: cannot go back to position 1, the session is at 0");
  fails(!mkrt_open_emulator(nullptr, 0), "mkrt: error: kernel is NULL");
  fails(!c.open("/none"), "/none/model.safetensors: error: cannot open: No such file or directory");
  fails(!mkrt_open_session(c.device, "/none.cubin", kDirectory.c_str()),
        "/none.cubin: error: cannot open: No such file or directory");
  CHECK(!c.open((std::string(MKC_SOURCE_DIR) + "/tests/fixtures/models/qwen2").c_str()));
  CHECK(std::string(mkrt_error()).find("config.json: error: has the hash ") != std::string::npos);
  mkrt::Manifest other = c.host.artefact.manifest;
  other.schedule_hash = "77";
  const std::string manifest = mkrt::to_json(other);
  CHECK(!mkrt_open_session_from_memory(c.device, manifest.data(), manifest.size(),
                                       c.host.artefact.plan.data(), c.host.artefact.plan.size(), nullptr, 0,
                                       kDirectory.c_str()));
  CHECK(std::string(mkrt_error()).ends_with("loaded, not 77: open another device for it"));
  CHECK(mkrt_position(c.session) == 0);
  CHECK(mkrt_step(c.session, &good, 1, nullptr, nullptr) == 0);
  CHECK(mkrt_max_tokens(c.session) == 64);
  CHECK(mkrt_context(c.session) == 128);
  mkrt_close_session(nullptr);
  mkrt_close_device(nullptr);
}

}  // namespace
}  // namespace mkc
