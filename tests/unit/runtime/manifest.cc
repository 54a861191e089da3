#include "runtime/artefact/manifest.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/abi/abi.h"

namespace mkrt {
namespace {

Manifest sample() {
  Manifest m;
  m.abi = kAbiVersion;
  m.mkc_version = "1.2.3";
  m.model = "llama";
  m.config_hash = hash_hex("config");
  m.schedule_hash = hash_hex("schedule");
  m.target = "sm_90a";
  m.workers = 3;
  m.threads = kWorkerThreads;
  m.shared_bytes = 100000;
  m.ring_stages = 4;
  m.event_cells = 9;
  m.weight_bytes = 1 << 20;
  m.workspace_bytes = 4096;
  m.vocab = 64;
  m.eos_ids = {2, 63};
  m.bos_id = 1;
  m.symbols = {{"T", 1, 16}, {"kv_len", 1, 32}};
  m.inputs = {{"tokens", Arena::kInput, Element::kI32, 0, 0, {16}}};
  m.outputs = {{"next", Arena::kWorkspace, Element::kI32, 256, 64, {16}}};
  m.weights = {{"w", 0, 131072, WeightLayout::kPacked, Element::kBf16, 64, 1024, 8, {"gate", "up"}},
               {"n", 524288, 256, WeightLayout::kVector, Element::kF16, 1, 64, 0, {"norm"}}};
  m.copies = {{"lm_head.weight", "embed.weight", "tie_word_embeddings is true"}};
  m.ropes = {{"rope", 655360, 32, {1.0, 0.1, 1.0 / 3}, 1.5}};
  m.tensors = {{"x", Arena::kWorkspace, Element::kF32, 512, 1024, {16, 16}}};
  m.caches = {{"l0.k", Element::kE4m3, 2, 64, "k_scale"}};
  m.grids.resize(2);
  m.grids[0].name = "embed";
  m.grids[0].placement = GridPlacement::kTable;
  m.grids[0].tasks = 7;
  m.grids[0].notifies = {"e"};
  m.grids[0].operands = {"tokens", "", "x"};
  m.grids[1].name = "l0.q";
  m.grids[1].kind = 1;
  m.grids[1].waits = {"e"};
  m.grids[1].operands = {"x", "w", "n"};
  m.grids[1].product = {64, 1024, 32, 4, 2, 512, 1, 0x358637bd, 0, 0, 0, 1};
  m.launches = {0, 1};
  m.certificate = {"1.2.3", kProved, {{"T", 1, 16}, {"kv_len", 1, 32}}, "deadlocks", "counts", "tickets"};
  m.seal = "ab";
  m.code_seal = "cd";
  m.traced = true;
  m.events = {{"e", 0, 4}, {"f", 4, 5}};
  return m;
}

// Returns the error of parsing the sample after an edit of its JSON.
template <class Edit>
std::string refused(Edit edit) {
  nlohmann::json document = nlohmann::json::parse(to_json(sample()));
  edit(document);
  const Result<Manifest> manifest = parse_manifest(document.dump());
  return manifest.ok() ? "" : manifest.error().message;
}

TEST_CASE("a manifest reads back equal") {
  const Manifest m = sample();
  const Result<Manifest> again = parse_manifest(to_json(m));
  REQUIRE_MESSAGE(again.ok(), again.error().message);
  CHECK(again.value() == m);
  CHECK(to_json(again.value()) == to_json(m));
  CHECK(parse_manifest(to_json(m) + "   ").ok());  // a cubin pads the manifest to whole words
}

TEST_CASE("a manifest of another version or with other keys is refused") {
  using nlohmann::json;
  CHECK(refused([](json& m) { m["version"] = 1; }) == "manifest: error: version 1, expected 7");
  CHECK(refused([](json& m) { m["version"] = 1, m.erase("grids"); }) ==
        "manifest: error: version 1, expected 7");
  CHECK(refused([](json& m) { m["abi"] = 77; }) == "manifest: error: ABI version 77, expected 17");
  CHECK(refused([](json& m) { m["launches"] = {0, 2}; }) ==
        "manifest: error: launches are not the grids in their order");
  CHECK(refused([](json& m) { m.erase("grids"); }) == "manifest: error: key \"grids\" is missing");
  CHECK(refused([](json& m) { m["more"] = 1; }) == "manifest: error: has unknown keys");
  CHECK(refused([](json& m) { m["weights"][1]["more"] = 1; }) ==
        "manifest: error: weights[1]: has unknown keys");
  CHECK(refused([](json& m) { m["workers"] = -1; }) ==
        "manifest: error: workers: found -1, expected an integer from 0 to 4294967295");
  CHECK(refused([](json& m) { m["symbols"][0]["hi"] = 1.5; }) ==
        "manifest: error: symbols[0].hi: found 1.5, expected an integer from -9223372036854775808 to "
        "9223372036854775807");
  CHECK(refused([](json& m) { m["weights"][0]["layout"] = "rows"; }) ==
        "manifest: error: weights[0].layout: found \"rows\", expected one of packed, vector");
}

TEST_CASE("a manifest whose sizes contradict each other is refused") {
  using nlohmann::json;
  CHECK(refused([](json& m) { m["weights"][0]["bytes"] = 131071; }) ==
        "manifest: error: weight w of 131072 bytes has the slot 0+131071 in an arena of 1048576 bytes");
  CHECK(refused([](json& m) { m["weights"][0]["rows"] = 65; }) ==
        "manifest: error: weight w of 163840 bytes has the slot 0+131072 in an arena of 1048576 bytes");
  for (const int group : {0, 4, 16})
    CHECK(refused([&](json& m) { m["weights"][0]["group"] = group; }) ==
          fmt::format("manifest: error: weight w: 64 rows of 2 sources in groups of {}", group));
  CHECK(refused([](json& m) { m["weights"][0]["rows"] = m["grids"][1]["product"][0] = 60; }) ==
        "");  // the last group has 6 rows
  CHECK(refused([](json& m) { m["weights"][0]["stack"] = 4; }) ==
        "manifest: error: weight w: 2 sources of a stack of 4");
  CHECK(refused([](json& m) { m["weights"][0]["stack"] = 2; }) ==
        "manifest: error: weight w of 262144 bytes has the slot 0+131072 in an arena of 1048576 bytes");
  CHECK(refused([](json& m) { m["weights"][0]["cols"] = uint64_t{1} << 60; }) ==
        "manifest: error: weight w has 64 rows and 1152921504606846976 columns");
  CHECK(refused([](json& m) { m["outputs"][0]["offset"] = 4090; }) ==
        "manifest: error: tensor next of 64 bytes has the slot 4090+64 in an arena of 4096 bytes");
  CHECK(refused([](json& m) { m["ropes"][0]["positions"] = uint64_t{1} << 62; }) ==
        "manifest: error: rope table of 4611686018427387904 positions at 655360 lies outside its arena");
  CHECK(refused([](json& m) { m["symbols"][0]["hi"] = int64_t{1} << 62; }) ==
        "manifest: error: symbol T from 1 to 4611686018427387904, expected bounds within 0 to 2147483647");
  CHECK(refused([](json& m) { m["weights"][0]["element"] = "i32"; }) ==
        "manifest: error: weight w is i32, expected f32, f16 or bf16");
  CHECK(refused([](json& m) { m["weights"][1]["sources"] = {"a", "b"}; }) ==
        "manifest: error: vector n has 1 rows and 2 sources, expected one of each");
  CHECK(refused([](json& m) { m["events"][1]["cells"] = 6; }) ==
        "manifest: error: event f has cells 4+6 of 9");
  CHECK(refused([](json& m) { m["threads"] = 128; }) ==
        "manifest: error: 3 workers of 128 threads, expected 1 or more of 384");
}

TEST_CASE("a grid whose numbers leave their bounds is refused by its name") {
  using nlohmann::json;
  const auto grid = [](size_t at, const char* key, const json& value) {
    return refused([&](json& m) { m["grids"][at][key] = value; });
  };
  CHECK(grid(0, "kind", 2) == "manifest: error: grid embed is of kind 2");
  CHECK(grid(0, "placement", "drawn") ==
        "manifest: error: grids[0].placement: found \"drawn\", expected one of table, range, inline, queue, "
        "ready");
  CHECK(grid(0, "tasks", 0) == "manifest: error: grid embed has 0 tasks in tables");
  CHECK(grid(1, "tasks", 1) == "manifest: error: grid l0.q has 1 tasks in tables");
  CHECK(grid(1, "tickets", 1) == "manifest: error: grid l0.q has its tickets in counter 1 of 9");
  CHECK(grid(1, "placement", "queue") == "manifest: error: e and l0.q share counter 0");
  for (const int inlined : {-2, 0, 2})
    CHECK(grid(1, "inline_grid", inlined) ==
          fmt::format("manifest: error: grid l0.q runs grid {} inline", inlined));
  CHECK(grid(1, "waits", {"e", "e", "e"}) ==
        "manifest: error: grid l0.q has 3 waits, 0 notifications and 3 operands");
  CHECK(grid(1, "product", {1, 2}) == "manifest: error: grid l0.q has a product of 2 words, expected 12");
  CHECK(grid(1, "operands", {"x"}) == "manifest: error: grid l0.q is a product without a weight");
  const auto product = [](size_t word, uint32_t value) {
    return refused([&](json& m) { m["grids"][1]["product"][word] = value; });
  };
  CHECK(product(3, 5) ==
        "manifest: error: grid l0.q multiplies 64x1024 in 5 strips of 2 tiles, the last of 512 columns; "
        "weight w is "
        "64x1024 in 4 of 2, the last of 512");
  CHECK(product(2, 65) == "manifest: error: grid l0.q: a product's numbers are out of bounds");
  CHECK(product(7, 0x7f800000) == "manifest: error: grid l0.q: a product's numbers are out of bounds");
}

TEST_CASE("counters, names and the order of kernels that contradict each other are refused") {
  using nlohmann::json;
  CHECK(refused([](json& m) { m["events"][1]["first_cell"] = 3; }) ==
        "manifest: error: e and f share counter 3");
  CHECK(refused([](json& m) { m["launches"] = {1, 0}; }) ==
        "manifest: error: launches are not the grids in their order");
  CHECK(refused([](json& m) { m["weights"][0]["name"] = "x"; }) == "manifest: error: two are named x");
  CHECK(refused([](json& m) { m["events"][0]["name"] = "f"; }) == "manifest: error: two are named f");
  CHECK(refused([](json& m) { m["vocab"] = uint64_t{1} << 31; }) ==
        "manifest: error: a vocabulary of 2147483648, expected at most 2147483647");
  CHECK(refused([](json& m) { m["workers"] = 65537; }) ==
        "manifest: error: 65537 workers with 100000 bytes of shared memory, expected at most 65536 with "
        "268435456");
}

TEST_CASE("hashes are those of XXH3-128") {
  // The expected hash is that of no bytes with seed 0, from xxHash's own sanity vectors.
  CHECK(hash_hex("") == "99aa06d3014798d86001c324468d497f");
}

}  // namespace
}  // namespace mkrt
