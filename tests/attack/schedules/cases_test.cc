// Each schedule here was once accepted, or crashed the checker. Each must be refused, and the judge must see
// why.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "ir/parse.h"
#include "tests/attack/schedules/judge.h"
#include "tests/attack/schedules/verdict.h"
#include "tools/passes.h"

namespace mkc::attack {
namespace {

const std::string kRoot = MKC_SOURCE_DIR;

Schedule read_case(const std::string& name) {
  std::ifstream in(kRoot + "/tests/attack/schedules/cases/" + name + ".mkir");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Result<Module> module = parse_mkir(text, name);
  REQUIRE(module.ok());
  return std::get<Schedule>(std::move(module.value()));
}

Schedule compile_config(const std::string& model) {
  ModelRequest request;
  request.model = kRoot + "/tools/bench/configs/" + model;
  request.options.target = "sm_90a";
  request.options.scheduler = Scheduler::kStatic;
  Result<Compilation> opened = open_model(request, false);
  REQUIRE(opened.ok());
  const Status status = run_passes(opened.value(), "place");
  REQUIRE(status.ok());
  return opened.value().schedule();
}

// The effort suffices to see every case at the values of its hints. Large models are judged at these values
// alone.
std::string judged(const Schedule& s, const std::vector<Hint>& hints) {
  const bool large = s.program.grids.size() > 200;
  const std::optional<Finding> finding = judge(s, hints, large ? Effort{0, 1} : Effort{6, 2}, Rng{1});
  return finding ? finding->kind : "";
}

void check_refused(const Schedule& s, const std::vector<Hint>& hints, const std::string& kind) {
  CHECK(judged(s, hints) == kind);
  CHECK(verdict_apart(s) == Verdict::kRefused);
}

TEST_CASE("a count that is wrong for one number of tokens") {
  check_refused(read_case("expect_at_one_value"), {{"T", 5}}, "deadlock");
}
TEST_CASE("a cell that is wrong for one number of tokens") {
  check_refused(read_case("cell_at_one_value"), {{"T", 12}}, "deadlock");
}
TEST_CASE("a grid that declares to read nothing and does not wait") {
  check_refused(read_case("read_nothing_and_no_wait"), {}, "footprint");
}
TEST_CASE("a grid that declares to write nothing of a cache") {
  check_refused(read_case("write_nothing"), {}, "footprint");
}
TEST_CASE("a grid that writes another layer's cache") {
  check_refused(read_case("cache_of_another_layer"), {}, "meet");
}
TEST_CASE("an expert's weight that does not stream") {
  check_refused(read_case("weight_not_streamed"), {}, "stream");
}
TEST_CASE("a ring of one stage") {
  check_refused(read_case("ring_of_one_stage"), {{"T", 12}}, "ring");
}
TEST_CASE("a ragged grid that is placed by table") {
  check_refused(read_case("ragged_by_table"), {}, "deadlock");
}
TEST_CASE("an append that runs inline") {
  check_refused(read_case("append_inline"), {}, "inline");
}

Event& first_that_expects_tokens(Schedule& s) {
  for (Event& event : s.program.events)
    if (event.expect == symbol(find_symbol(s.program.symbols, "T"))) return event;
  FAIL("no event expects T");
  return s.program.events.items[0];
}

TEST_CASE("a count of Qwen3-8B that is right for 1 and 64 tokens alone") {
  Schedule s = compile_config("qwen3-8b");
  const Expr t = symbol(find_symbol(s.program.symbols, "T"));
  REQUIRE(s.program.symbols[find_symbol(s.program.symbols, "T")].bounds.hi == 64);
  Event& event = first_that_expects_tokens(s);
  SUBCASE("too many") {
    event.expect = t + min(t - 1, Expr(64) - t);
    check_refused(s, {{"T", 2}}, "deadlock");
  }
  SUBCASE("too few") {
    event.expect = 1 + 63 * floor_div(t, 64);
    check_refused(s, {{"T", 9}}, "unwritten");
  }
}

TEST_CASE("a count of Qwen3-30B-A3B that is right for 8 requests and fewer") {
  Schedule s = compile_config("qwen3-30b-a3b");
  REQUIRE(judged(s, {{"B", 3}}).empty());
  Event& event = s.program.events.items[s.program.events.size() / 2];
  event.expect = event.expect + max(0, symbol(find_symbol(s.program.symbols, "B")) - 8);
  check_refused(s, {{"B", 9}}, "deadlock");
}

}  // namespace
}  // namespace mkc::attack
