// These tests check that an error of the proof names the line that it is about.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "ir/verify.h"
#include "scheduler/proof/prove.h"
#include "tests/mkir_files.h"

namespace mkc::test {
namespace {

// Edit makes a valid schedule wrong. The error is about the line that begins with `line`.
struct Edit {
  std::string from, to, line, message;
};

const std::vector<Edit> kEdits = {
    {"bytes 16384", "bytes 8192", "ring ", "a stage of the ring has 8192 bytes, expected 16384, a tile"},
    {"@l0.gate_up_ready[] expect 2", "@l0.gate_up_ready[] expect 3", "event @l0.gate_up_ready",
     "@l0.gate_up_ready[] expects 3 notifications, 2 tasks notify it"},
    {"slot 16128:+16", "slot 16128:+12", "output %next", "the slot of %next has 12 bytes, it needs 16"},
    {"slot 80384:+8192", "slot 80128:+8192", "weight %l0.down.packed",
     "%l0.post_norm and %l0.down.packed overlap in the weights"},
    {"base 17", "base 16", "event @sample_ready", "@logits_ready and @sample_ready overlap in the counters"},
    {"%logits[2:+1], %sample", "%logits[2:+1]", "worker 1",
     "%sample is placed by range, but the stream of worker 1 has 0 segments of it, expected 1"},
    {"%logits[2:+1]", "%logits[1:+1]", "grid %logits", "task 1 of %logits is in the streams twice"},
    {"read sum_squares %l0.x.sum_squares", "read sum_squares %l0.y.sum_squares", "grid %l0.down",
     "%l0.down[0] may write %l0.x.sum_squares over %l0.y.sum_squares before %logits[1] is done with it"},
    {"%l0.x: f32[T, 32] slot 0:", "%l0.x: f32[T, 32] slot 2048:", "grid %l0.down",
     "%l0.down[0] may write %l0.x over %l0.y before %l0.down[0] is done with it"},
};

TEST_CASE("an error of the proof is located at the line that it is about") {
  const std::string valid = read_file(MKC_SOURCE_DIR "/tests/mkir/valid_schedule.mkir");
  for (const Edit& edit : kEdits) {
    CAPTURE(edit.message);
    std::string text = valid;
    const size_t at = text.find(edit.from), line = text.find("\n" + edit.line);
    REQUIRE(at != std::string::npos);
    REQUIRE(line != std::string::npos);
    const auto number = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(line), '\n') + 2;
    text.replace(at, edit.from.size(), edit.to);
    Places places;
    const Result<Module> module = parse_mkir(text, "t.mkir", &places);
    REQUIRE(module.ok());
    REQUIRE(verify(module.value(), &places).empty());
    const std::string found = prove(std::get<Schedule>(module.value()), &places).error().message;
    CAPTURE(found);
    CHECK(found.starts_with(fmt::format("t.mkir:{}:1: error: {}", number, edit.message)));
  }
}

}  // namespace
}  // namespace mkc::test
