// Random requests share prefixes, over pools that are too small for all of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/unit/engine/fake_model.h"

namespace mkrt {
namespace {

struct Cancel {
  uint64_t launch, id;
};

// Workload is a set of random requests and of cancels. Prompts begin like those of earlier requests, or like
// an earlier request with its answer.
struct Workload {
  BatchLimits limits;
  EngineOptions options;
  std::vector<Request> requests;
  std::vector<std::vector<int32_t>> alone;  // what each request gets alone
  std::vector<Cancel> cancels;

  explicit Workload(uint32_t seed) : random_(seed) {
    limits.page_size = random_() % 4 ? 16 : 32;
    limits.context = number(40, 160);
    limits.max_tokens = random_() % 3 ? number(1, 40) : number(40, 200);
    limits.max_requests = number(2, 10);
    limits.vocab = number(2, 60);
    const auto longest = static_cast<uint32_t>(pages_for(limits.context, limits.page_size));
    limits.pages = number(longest, longest * (random_() % 4 ? 2 : 6));
    options.preemption = random_() % 3 ? Preemption::kRecompute : Preemption::kNone;
    options.prefix_cache = seed % 8 != 0;
    options.max_rows_beside_decodes = random_() % 2 ? number(1, 20) : 0;
    options.steps_per_launch = random_() % 2 ? number(1, 9) : 1;
    if (random_() % 4 == 0) options.stop_ids = {token()};
    const uint32_t spread = random_() % 3 ? 60 : 0;
    for (uint32_t count = number(2, 24); count > 0; --count) add_request(spread);
    for (uint32_t count = random_() % 2 ? number(0, 6) : 0; count > 0; --count)
      cancels.push_back({number(0, 60), random_() % requests.size()});
  }

 private:
  uint32_t number(uint32_t low, uint32_t high) { return low + random_() % (high - low + 1); }
  int32_t token() { return static_cast<int32_t>(random_() % limits.vocab); }

  void add_request(uint32_t spread) {
    Request r;
    if (!requests.empty() && random_() % 4) {
      const size_t earlier = random_() % requests.size();
      r.prompt = requests[earlier].prompt;
      if (random_() % 2)
        r.prompt.insert(r.prompt.end(), alone[earlier].begin(), alone[earlier].end());
      else
        r.prompt.resize(number(1, static_cast<uint32_t>(r.prompt.size())));
    }
    for (uint32_t further = number(0, random_() % 2 ? limits.context / 2 : 3); further > 0; --further)
      r.prompt.push_back(token());
    if (r.prompt.empty()) r.prompt.push_back(token());
    r.prompt.resize(std::min<size_t>(r.prompt.size(), limits.context));
    r.max_new_tokens = number(1, limits.context - static_cast<uint32_t>(r.prompt.size()) + 1);
    if (random_() % 4 == 0) r.max_new_tokens = std::min(r.max_new_tokens, 8u);
    r.arrive_at_step = number(0, spread);
    r.priority = random_() % 2 ? static_cast<int32_t>(number(0, 4)) - 2 : 0;
    r.stream = random_() % 2;
    r.ignore_engine_stops = random_() % 4 == 0;
    if (random_() % 8 == 0) r.stop_ids = {token()};
    if (random_() % 8 == 0) r.sampling = {.repetition_penalty = 1.5f, .temperature = 1, .seed = random_()};
    std::vector<int32_t> stop_ids = r.stop_ids;
    if (!r.ignore_engine_stops)
      stop_ids.insert(stop_ids.end(), options.stop_ids.begin(), options.stop_ids.end());
    alone.push_back(fake_generate(r.prompt, r.max_new_tokens, stop_ids, limits.vocab, r.sampling));
    requests.push_back(std::move(r));
  }

  std::mt19937 random_;
};

struct Run {
  std::vector<Outcome> outcomes;               // by id
  std::vector<std::vector<int32_t>> progress;  // by id
  EngineStats stats;
};

// Runs the workload to its end.
Run run(const Workload& w, FakeModel& model) {
  Engine engine = Engine::open(model, w.options).value();
  for (const Request& r : w.requests) engine.submit(r);
  Run run;
  run.outcomes.resize(w.requests.size());
  run.progress.resize(w.requests.size());
  size_t finished = 0;
  for (uint64_t launch = 0; !engine.idle(); ++launch) {
    REQUIRE(launch < 20'000);
    for (const Cancel& cancel : w.cancels)
      if (cancel.launch == launch) engine.cancel(cancel.id);
    if (const Status status = engine.step(); !status.ok()) FAIL(status.error().message);
    for (const Progress& progress : engine.take_progress()) {
      std::vector<int32_t>& to = run.progress.at(progress.id);
      to.insert(to.end(), progress.ids.begin(), progress.ids.end());
    }
    for (Outcome& outcome : engine.take_outcomes()) {
      ++finished;
      run.outcomes.at(outcome.id) = std::move(outcome);
    }
  }
  CHECK(finished == w.requests.size());
  CHECK(engine.free_pages() == w.limits.pages);
  run.stats = engine.stats();
  CHECK(run.stats.running + run.stats.waiting + run.stats.pages_used == 0);
  return run;
}

void check(const Workload& w, const Run& run) {
  for (size_t i = 0; i < w.requests.size(); ++i) {
    CAPTURE(i);
    const Outcome& outcome = run.outcomes[i];
    REQUIRE(outcome.error == "");
    std::vector<int32_t> expected = w.alone[i];
    if (outcome.reason == FinishReason::kCancelled) expected.resize(outcome.new_ids.size());
    REQUIRE(outcome.new_ids == expected);
    CHECK(run.progress[i] == (w.requests[i].stream ? outcome.new_ids : std::vector<int32_t>()));
    CHECK(outcome.cached_tokens < w.requests[i].prompt.size());
    CHECK(outcome.cached_tokens % w.limits.page_size == 0);
  }
}

TEST_CASE("requests that share prefixes get the tokens that each gets alone") {
  EngineStats all;
  uint64_t cancelled = 0, requests = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    const Workload w(seed);
    FakeModel model(w.limits);
    const Run result = run(w, model);
    check(w, result);
    if (!w.options.prefix_cache) CHECK(result.stats.prefix_hits == 0);
    if (w.options.preemption == Preemption::kNone) CHECK(result.stats.preemptions == 0);
    all.preemptions += result.stats.preemptions;
    all.prefix_hits += result.stats.prefix_hits;
    all.prefix_queries += result.stats.prefix_queries;
    requests += w.requests.size();
    for (const Outcome& outcome : result.outcomes) cancelled += outcome.reason == FinishReason::kCancelled;
  }
  MESSAGE(requests, " requests, ", cancelled, " cancelled, ", all.preemptions, " preemptions, ",
          all.prefix_hits, " of ", all.prefix_queries, " prompt tokens cached");
  CHECK(requests > 10'000);
  CHECK(cancelled > 200);
  CHECK(all.preemptions > 1000);
  CHECK(all.prefix_hits > all.prefix_queries / 10);
}

TEST_CASE("requests that share prefixes have the same steps whenever they come again") {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const Workload w(seed);
    FakeModel first(w.limits), second(w.limits);
    run(w, first);
    run(w, second);
    CHECK(first.steps == second.steps);
  }
}

}  // namespace
}  // namespace mkrt
