#include "runtime/session/trace.h"

#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/artefact/manifest.h"

namespace mkrt {
namespace {

constexpr uint32_t kStamps = 2;

// Returns the trace memory of two workers. Track t has t stamps, from time 100 + t on, of which kStamps fit.
std::vector<std::byte> memory() {
  std::vector<std::byte> bytes(trace_bytes(2, kStamps));
  const size_t each = bytes.size() / 4;
  for (uint32_t t = 0; t < 4; ++t) {
    const MkTrack header{t, 0};
    std::memcpy(bytes.data() + t * each, &header, sizeof header);
    for (uint32_t i = 0; i < std::min(t, kStamps); ++i) {
      const MkStamp stamp{100 + t + 10 * i, 7 + i, 1, kTaskEnded, 5, 0};
      std::memcpy(bytes.data() + t * each + sizeof header + i * sizeof stamp, &stamp, sizeof stamp);
    }
  }
  return bytes;
}

Trace sample() {
  Manifest m;
  m.model = "llama";
  m.target = "sm_90a";
  m.schedule_hash = "abc";
  m.grids.resize(2);
  m.grids[0].name = "embed";
  m.grids[1].name = "l0.q";
  return make_trace(m, "a GPU", {{3, 9}}, kStamps, memory());
}

TEST_CASE("tracks come out of a device's memory with times from the first stamp on and lost ones counted") {
  const Trace trace = sample();
  CHECK(trace.timed);
  REQUIRE(trace.tracks.size() == 4);
  CHECK(trace.tracks[0] == TraceTrack{});
  CHECK(trace.tracks[1].stamps.size() == 1);
  CHECK(trace.tracks[1].stamps[0].time == 0);
  CHECK(trace.tracks[3].lost == 1);
  CHECK(trace.tracks[3].stamps[1] == MkStamp{12, 8, 1, kTaskEnded, 5, 0});
}

TEST_CASE("a trace reads back equal from its file") {
  const Result<Trace> again = parse_trace(to_json(sample()), "t.json");
  REQUIRE_MESSAGE(again.ok(), again.error().message);
  CHECK(again.value() == sample());
}

TEST_CASE("a file that is no trace is refused") {
  const auto refused = [](auto edit) {
    nlohmann::json document = nlohmann::json::parse(to_json(sample()));
    edit(document);
    const Result<Trace> trace = parse_trace(document.dump(), "t.json");
    return trace.ok() ? "" : trace.error().message;
  };
  using nlohmann::json;
  const std::string stamps = " of each stamp, in turn";
  CHECK(refused([](json&) {}) == "");
  CHECK(refused([](json& t) { t.erase("grids"); }) == "t.json: error: key \"grids\" is missing");
  CHECK(refused([](json& t) { t["tracks"].erase(3); }) ==
        "t.json: error: tracks: has 3 tracks, expected 2 for each worker");
  constexpr uint64_t most = UINT32_MAX;  // largest number of a task or ring
  CHECK(refused([&](json& t) { t["tracks"][2]["stamps"] = {1, kStampKinds - 1, 1, most, most}; }) == "");
  CHECK(refused([&](json& t) { t["tracks"][2]["stamps"] = {1, 2, 3, 0}; }) ==
        "t.json: error: tracks[2].stamps: found an array, expected time, kind, grid, task and ring" + stamps);
  for (const json& wrong : {json{1, kStampKinds, 0, 0, 0}, json{1, 0, 2, 0, 0}, json{-1, 0, 0, 0, 0},
                            json{1, 0, 0, most + 1, 0}, json{1, 0, 0, 0, most + 1}, json{1, 0, "x", 0, 0}})
    CHECK(refused([&](json& t) {
            json& found = t["tracks"][2]["stamps"];
            found = {1, 0, 0, 0, 0};
            found.insert(found.end(), wrong.begin(), wrong.end());
          }) == "t.json: error: tracks[2].stamps: stamp 1 is " + wrong.dump() +
                    ", expected a time, a kind below 4, a grid below 2, and a task and a ring of 32 bits");
}

}  // namespace
}  // namespace mkrt
