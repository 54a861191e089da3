// These tests make a valid schedule wrong. They check the error and the line that it is about.
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

// Edits of what a step gives a schedule, which the verifier refuses.
const std::vector<Edit> kGiven = {
    {"kv_len[B]", "kv_len[4]", "list kv_len",
     "V34: list kv_len: its length is 4, expected B, the step's requests"},
    {"kv_len[B]", "kv_len[B + 3]", "list kv_len",
     "V34: list kv_len: its length is B + 3, expected B, the step's requests"},
    {"kv_len[B] in [1, 64]", "kv_len[B] in [0, 0]", "list kv_len",
     "V34: list kv_len: its bounds are 0 to 0, its values reach from 1 to 1"},
    {"block_rows[blocks] in [1, 8]", "block_rows[blocks] in [0, 0]", "list block_rows",
     "V34: list block_rows: its bounds are 0 to 0, its values reach from 1 to 1"},
};

// Checks that the first error of an edited schedule has the edit's line and message.
void check_edit(const Edit& edit) {
  CAPTURE(edit.message);
  std::string text = read_file(MKC_SOURCE_DIR "/tests/mkir/valid_schedule.mkir");
  const size_t at = text.find(edit.from), line = text.find("\n" + edit.line);
  REQUIRE(at != std::string::npos);
  REQUIRE(line != std::string::npos);
  const auto number = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(line), '\n') + 2;
  text.replace(at, edit.from.size(), edit.to);
  Places places;
  const Result<Module> module = parse_mkir(text, "t.mkir", &places);
  REQUIRE(module.ok());
  std::string all;
  for (const Error& error : verify(module.value(), &places)) all += error.message + "\n";
  if (all.empty()) all = prove(std::get<Schedule>(module.value()), &places).error().message;
  CAPTURE(all);
  CHECK(all.find(fmt::format("t.mkir:{}:1: error: {}", number, edit.message)) != std::string::npos);
}

TEST_CASE("an error of the proof is located at the line that it is about") {
  for (const Edit& edit : kEdits) check_edit(edit);
}

TEST_CASE("lists of a step have an element for each of its requests, and bounds that a step can have") {
  for (const Edit& edit : kGiven) check_edit(edit);
}

}  // namespace
}  // namespace mkc::test
