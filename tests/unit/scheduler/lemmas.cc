// These tests check the lemmas of the proof (docs/proof.md) at random steps. Lists of a step are evaluated by
// their definition.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "ir/values.h"
#include "scheduler/proof/context.h"
#include "scheduler/tiling/fuse.h"
#include "tests/unit/frontend/fixtures.h"

namespace mkc {
namespace {

using Random = std::mt19937;
using Requests = std::vector<StepRequest>;

TaskProgram program_of(const std::string& config) {
  const Result<OpGraph> graph = test::graph_of(config);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return fuse(graph.value()).value();
}

int64_t bound(const TaskProgram& p, const char* name) {
  return p.symbols[find_symbol(p.symbols, name)].bounds.hi;
}

Requests random_requests(const TaskProgram& p, Random& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  Requests requests(static_cast<size_t>(1 + below(std::min(bound(p, "B"), bound(p, "T")))));
  int64_t left = bound(p, "T") - static_cast<int64_t>(requests.size());
  for (StepRequest& r : requests) {
    r.kv_len = 1 + below(bound(p, "kv_len"));
    const int64_t more = std::min({left, r.kv_len - 1, bound(p, "q_len") - 1});
    r.rows = 1 + (more > 0 ? below(more + 1) : 0);
    left -= r.rows - 1;
  }
  return requests;
}

int64_t tokens_of(const Requests& requests) {
  int64_t tokens = 0;
  for (const StepRequest& r : requests) tokens += r.rows;
  return tokens;
}

int64_t element_at(const std::vector<int64_t>& values, SymbolId list, int64_t i) {
  return evaluate(element(list, Expr(i)), values);
}

TEST_CASE("lemma 1: the intervals of lists of sums lie end to end over their total") {
  Random random(1);
  for (const std::string& config : {test::llama_config(), test::qwen3_moe_config()}) {
    const TaskProgram p = program_of(config);
    int families = 0;
    for (SymbolId starts : p.symbols.ids()) {
      proof::Spans spans;
      if (!proof::find_spans(p.symbols, starts, spans)) continue;
      ++families;
      for (int round = 0; round < 200; ++round) {
        const std::vector<int64_t> values = step_values(p.symbols, random_requests(p, random));
        const int64_t total = evaluate(spans.total, values),
                      count = evaluate(p.symbols[starts].length, values);
        std::vector<int> hits(static_cast<size_t>(total), 0);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t begin = element_at(values, spans.starts, i),
                        length = element_at(values, spans.lengths, i);
          REQUIRE(begin >= 0);
          REQUIRE(begin + length <= total);
          for (int64_t at = begin; at < begin + length; ++at) ++hits[static_cast<size_t>(at)];
        }
        CHECK(std::all_of(hits.begin(), hits.end(), [](int n) { return n == 1; }));
      }
    }
    CHECK(families == (config == test::llama_config() ? 2 : 3));
  }
}

TEST_CASE("symbols without lists keep to the relations that the proof uses, and to their bounds") {
  Random random(2);
  for (const std::string& config : {test::llama_config(), test::qwen3_moe_config()}) {
    const TaskProgram p = program_of(config);
    for (int round = 0; round < 500; ++round) {
      const Requests requests = random_requests(p, random);
      std::vector<int64_t> values = step_values(p.symbols, requests);
      if (round % 2 == 0) values[find_symbol(p.symbols, "R").index] = tokens_of(requests);
      CHECK(proof::may_be(p.symbols, step_symbols(p.symbols), values,
                          std::vector<bool>(p.symbols.size(), true)));
      for (SymbolId s : p.symbols.ids()) {
        const Symbol& symbol = p.symbols[s];
        const int64_t count = symbol.is_list() ? evaluate(symbol.length, values) : 1;
        for (int64_t i = 0; i < count; ++i) {
          const int64_t value = symbol.is_list() ? element_at(values, s, i) : values[s.index];
          CAPTURE(symbol.name);
          REQUIRE(value >= symbol.bounds.lo);
          REQUIRE(value <= symbol.bounds.hi);
        }
      }
    }
  }
}

// CacheUse is the interval of positions of a cache that a task accesses, for one request and head.
struct CacheUse {
  GridId grid;
  int64_t task, request, head, begin, end;
};

std::vector<CacheUse> cache_uses(const TaskProgram& p, GridId g, const Access& access,
                                 const std::vector<int64_t>& values) {
  std::vector<CacheUse> uses;
  const TaskSpace space(p.grids[g], values);
  std::vector<int64_t> coords;
  for (int64_t task = 0; task < space.count(); ++task) {
    space.coords_of(task, coords);
    const auto at = [&](const Expr& e) { return evaluate(e, values, coords); };
    const int64_t begin = at(access.region[2].offset), end = begin + at(access.region[2].size);
    if (end > begin)
      uses.push_back({g, task, at(access.region[0].offset), at(access.region[1].offset), begin, end});
  }
  return uses;
}

TEST_CASE("lemma 2: append and attend write each new position once, and read what other blocks appended") {
  Random random(3);
  const std::string plain = test::llama_config(),
                    window = test::edited(test::mistral_config(), "\"sliding_window\": null",
                                          "\"sliding_window\": 20");
  for (const std::string& config : {plain, window}) {
    const TaskProgram p = program_of(config);
    GridId append, attend;
    for (GridId g : p.grids.ids()) {
      if (p.grids[g].body == BodyKind::kAppend && !append.valid()) append = g;
      if (p.grids[g].body == BodyKind::kAttend && !attend.valid()) attend = g;
    }
    REQUIRE(attend.valid());
    for (int round = 0; round < 200; ++round) {
      const Requests requests = random_requests(p, random);
      const std::vector<int64_t> values = step_values(p.symbols, requests);
      std::map<std::tuple<int64_t, int64_t, int64_t>, CacheUse> writer;  // keyed by request, head, position
      for (GridId g : {append, attend})
        for (const CacheUse& use : cache_uses(p, g, *find_operand(p.grids[g], "k_cache", true), values))
          for (int64_t at = use.begin; at < use.end; ++at)
            REQUIRE(writer.emplace(std::tuple(use.request, use.head, at), use).second);
      const int64_t heads = int_attr(p.grids[attend].attrs, "kv_heads", 0);
      CHECK(static_cast<int64_t>(writer.size()) == heads * tokens_of(requests));
      for (const auto& [where, use] : writer) {
        const StepRequest& r = requests[static_cast<size_t>(std::get<0>(where))];
        CHECK(std::get<2>(where) >= r.kv_len - r.rows);
        CHECK(std::get<2>(where) < r.kv_len);
      }
      for (const Access& read : p.grids[attend].reads) {
        if (read.role != "k_cache") continue;
        for (const CacheUse& use : cache_uses(p, attend, read, values))
          for (int64_t at = use.begin; at < use.end; ++at) {
            const auto found = writer.find({use.request, use.head, at});
            if (read.stream)
              REQUIRE(found == writer.end());
            else
              REQUIRE((found != writer.end() && found->second.grid == append));
          }
      }
    }
  }
}

}  // namespace
}  // namespace mkc
