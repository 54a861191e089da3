// The test tries a slice of the mutants. tests/attack/tamper/main.cc tries all.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/assembler.h"
#include "tests/attack/tamper/judge.h"
#include "tools/native.h"

namespace mkc::attack {
namespace {

constexpr size_t kMutants = 90;  // mutants of each edit of each target

TEST_CASE("tampered artefacts are refused, and do not end the process where they are sealed anew") {
  for (const std::string& name : {"llama", "qwen3_moe_traced"}) {
    const Target target = make_target(name);
    CHECK(load_and_run(target, target.manifest, target.host.artefact.plan, false) == Verdict::kSame);
    CHECK(load_and_run(target, target.manifest, target.host.artefact.plan, true) == Verdict::kSame);
    for (const std::unique_ptr<Edit>& edit : edits_of(target)) {
      CAPTURE(edit->name());
      Tally tally;
      const size_t step = std::max<size_t>(1, edit->count() / kMutants);
      judge(target, *edit, 0, edit->count(), step, tally);
      CHECK(tally.tried >= std::min(edit->count(), kMutants));
      CHECK_MESSAGE(tally.bad.empty(), fmt::format("{}", fmt::join(tally.bad, "\n")));
    }
  }
}

// Checks that a changed byte is refused, tried at every `step`-th byte, and so is a file cut short.
void check_bytes(const std::vector<std::byte>& whole, size_t step) {
  REQUIRE(mkrt::read_artefact(whole, "whole").ok());
  std::vector<std::byte> changed = whole;
  size_t refused = 0, tried = 0;
  for (size_t at = 0; at < whole.size(); at += step, ++tried) {
    changed[at] ^= std::byte{4};
    refused += !mkrt::read_artefact(changed, "changed").ok();
    // The call must return, whatever its result.
    (void)mkrt::read_artefact(changed, "changed", mkrt::SealCheck::kSkipped);
    changed[at] = whole[at];
    refused += !mkrt::read_artefact(std::span(whole).first(at), "cut", mkrt::SealCheck::kSkipped).ok();
  }
  CHECK(refused == 2 * tried);
}

TEST_CASE("no byte of a cubin can change") {
  const Result<std::unique_ptr<Assembler>> assembler = find_assembler("");
  if (!assembler.ok()) {
    MESSAGE("SKIP: " << assembler.error().message);
    return;
  }
  Result<Compilation> c = open_model({MKC_SOURCE_DIR "/tests/fixtures/models/llama", {}, ""}, false);
  REQUIRE(c.ok());
  const Result<BuiltCubin> cubin = build_cubin(c.value(), *assembler.value(), {});
  REQUIRE_MESSAGE(cubin.ok(), cubin.error().message);
  check_bytes(cubin.value().bytes, 331);
}

TEST_CASE("no byte of a shared object can change") {
  ModelRequest request{MKC_SOURCE_DIR "/tests/fixtures/models/llama", {}, ""};
  request.options.target = kThisProcessor;
  Result<Compilation> c = open_model(request, false);
  REQUIRE(c.ok());
  const Result<BuiltCubin> object = build_shared_object(c.value(), {});
  REQUIRE_MESSAGE(object.ok(), object.error().message);
  check_bytes(object.value().bytes, 331);
}

}  // namespace
}  // namespace mkc::attack
