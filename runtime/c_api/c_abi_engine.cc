// The engine's calls of mkrt.h have the rules of mkrt::Engine; this file converts arguments and results.
#include "runtime/c_api/c_abi.h"
#include "runtime/c_api/sampling.h"
#include "runtime/c_api/versions.h"
#include "runtime/engine/session_stepper.h"

using mkrt::Claim, mkrt::fail, mkrt::guarded, mkrt::keep, mkrt::missing, mkrt::refuse;

namespace {

// Taken has the progress or outcomes that a caller takes one by one, and what the newest of them points to.
template <class T>
struct Taken {
  std::vector<T> items;
  size_t next = 0;
  T now;
  std::vector<std::byte> logprobs;

  // Takes the next item to `now`. Returns false if there is none.
  template <class F>
  bool advance(F more) {
    if (next == items.size()) {
      items = more();
      next = 0;
    }
    if (items.empty()) return false;
    now = std::move(items[next++]);
    return true;
  }
  uint32_t top_count() const {
    return now.samples.empty() ? 0 : static_cast<uint32_t>(now.samples[0].top.size());
  }
  // Returns the log-probabilities of `now` in entries of `size` bytes, or NULL if there are none, or 0 bytes.
  const mkrt_logprobs* logprobs_of(uint32_t size) {
    if (size == 0 || now.samples.empty()) return nullptr;
    logprobs.resize(now.samples.size() * size);
    auto* const list = reinterpret_cast<mkrt_logprobs*>(logprobs.data());
    for (size_t i = 0; i < now.samples.size(); ++i)
      mkrt::give_logprobs(mkrt::logprobs_of(now.samples[i]), list, size, i);
    return list;
  }
};

}  // namespace

struct mkrt_engine {
  static constexpr const char* kKind = "engine";
  std::shared_ptr<mkrt::OpenDevice> device;
  std::shared_ptr<mkrt_session> session;
  std::unique_ptr<mkrt::SessionStepper> stepper;
  mkrt::Engine engine;
  uint32_t max_waiting;
  Taken<mkrt::Progress> progress{};
  Taken<mkrt::Outcome> outcomes{};

  ~mkrt_engine() { session->has_engine = false; }
};

namespace {

// Tells whether a list is longer than it can be right, or missing, and keeps the error.
bool wrong_list(const void* list, uint32_t count, const char* name, uint32_t max, const char* which) {
  if (count > max) refuse("{}: found {} entries, expected at most {}, {}", name, count, max, which);
  return count > max || (count > 0 && missing(list, name));
}

constexpr const char* kIds = "the ids that there are";

bool take_options(const mkrt_engine_options* from, const mkrt::BatchLimits& limits, mkrt_engine_options& to) {
  if (from && !mkrt::take(from, to)) return false;
  if (to.preemption > MKRT_RECOMPUTE || to.reserved != 0) {
    to.reserved != 0 ? refuse("reserved: found {}, expected 0", to.reserved)
                     : refuse("preemption: found {}, expected 0 or 1", to.preemption);
    return false;
  }
  if (to.steps_per_launch > mkrt::kMaxSteps) {
    refuse("steps_per_launch: found {}, expected 0 to {}", to.steps_per_launch, mkrt::kMaxSteps);
    return false;
  }
  return !wrong_list(to.stop_ids, to.stop_count, "stop_ids", limits.vocab, kIds);
}

mkrt::EngineOptions options_of(const mkrt_engine_options& from) {
  mkrt::EngineOptions options;
  options.preemption =
      from.preemption == MKRT_RECOMPUTE ? mkrt::Preemption::kRecompute : mkrt::Preemption::kNone;
  options.prefix_cache = from.prefix_cache != 0;
  options.max_rows_beside_decodes = from.max_rows_beside_decodes;
  options.steps_per_launch = std::max(1u, from.steps_per_launch);
  options.stop_ids.assign(from.stop_ids, from.stop_ids + from.stop_count);
  return options;
}

// Converts a request. Returns false and keeps the error if a list is missing or too long, or if a size
// belongs to no version. The engine checks all else.
bool take_request(const mkrt_request* given, const mkrt::BatchLimits& limits, mkrt::Request& to) {
  mkrt_request from;
  if (!mkrt::take(given, from) || !mkrt::take_sampling(from.sampling, to.sampling) ||
      wrong_list(from.prompt, from.prompt_count, "prompt", limits.context, "the context") ||
      wrong_list(from.stop_ids, from.stop_count, "stop_ids", limits.vocab, kIds) ||
      wrong_list(from.logit_bias, from.bias_count, "logit_bias", limits.vocab, kIds) ||
      wrong_list(from.allowed_ids, from.allowed_count, "allowed_ids", limits.vocab, kIds))
    return false;
  if (from.name) to.name = from.name;
  to.prompt.assign(from.prompt, from.prompt + from.prompt_count);
  to.stop_ids.assign(from.stop_ids, from.stop_ids + from.stop_count);
  for (uint32_t i = 0; i < from.bias_count; ++i)
    to.bias.logit_bias.push_back({from.logit_bias[i].id, from.logit_bias[i].value});
  to.bias.allowed_ids.assign(from.allowed_ids, from.allowed_ids + from.allowed_count);
  to.bias.presence_penalty = from.presence_penalty;
  to.bias.frequency_penalty = from.frequency_penalty;
  to.bias.min_new_tokens = from.min_new_tokens;
  to.max_new_tokens = from.max_new_tokens;
  to.priority = from.priority;
  to.stream = from.stream != 0;
  to.ignore_engine_stops = from.ignore_engine_stops != 0;
  to.arrive_at_step = from.arrive_at_step;
  return true;
}

mkrt_finish_reason reason_of(mkrt::FinishReason reason) {
  switch (reason) {
    case mkrt::FinishReason::kStop:
      return MKRT_STOP;
    case mkrt::FinishReason::kLength:
      return MKRT_LENGTH;
    case mkrt::FinishReason::kError:
      return MKRT_ERROR;
    case mkrt::FinishReason::kCancelled:
      return MKRT_CANCELLED;
  }
  return MKRT_UNFINISHED;
}

// Tells whether log-probabilities are wanted in entries of an unknown size, and keeps the error.
bool unknown_logprobs(uint32_t size, const char* field) {
  return size != 0 && mkrt::unknown_size<mkrt_logprobs>(size, field);
}

}  // namespace

mkrt_engine* mkrt_open_engine(mkrt_session* session, const mkrt_engine_options* options) {
  return guarded(
      [&]() -> mkrt_engine* {
        const Claim claim(session);
        mkrt_engine_options wanted{};
        if (!claim || mkrt::has_engine(claim) || !take_options(options, claim->session.limits(), wanted))
          return nullptr;
        if (claim->session.has_step_under_way())
          return fail<mkrt_engine>(
              {"step: error: a step is under way: end it first", mkrt::ErrorKind::kOutOfOrder},
              MKRT_OUT_OF_ORDER);
        if (wanted.pages > 0) {
          const mkrt::Status cache = claim->session.use_cache({wanted.page_size, wanted.pages});
          if (!cache.ok()) return fail<mkrt_engine>(cache.error(), MKRT_BAD_ARGUMENT);
        }
        auto stepper = std::make_unique<mkrt::SessionStepper>(claim->session);
        mkrt::Result<mkrt::Engine> engine = mkrt::Engine::open(*stepper, options_of(wanted));
        if (!engine.ok()) return fail<mkrt_engine>(engine.error(), MKRT_BAD_ARGUMENT);
        auto opened = std::make_shared<mkrt_engine>(claim->device, claim.shared(), std::move(stepper),
                                                    std::move(engine.value()), wanted.max_waiting);
        claim->session.set_position(0);  // the engine's requests take the pages of what was fed
        claim->has_engine = true;
        return mkrt::handles_of<mkrt_engine>().add(std::move(opened));
      },
      nullptr);
}

void mkrt_close_engine(mkrt_engine* engine) {
  guarded([&] { mkrt::close(engine); });
}

mkrt_status mkrt_submit(mkrt_engine* engine, const mkrt_request* request, uint64_t* id) {
  return guarded([&] {
    const Claim claim(engine);
    mkrt::Request wanted;
    if (!claim || missing(request, "request") || missing(id, "id") ||
        !take_request(request, claim->session->session.limits(), wanted))
      return mkrt::last_status();
    const uint32_t waiting = claim->engine.stats().waiting, max = claim->max_waiting;
    if (max > 0 && waiting >= max)
      return keep(MKRT_FULL,
                  fmt::format("engine: error: {} requests wait, expected fewer than {}", waiting, max));
    *id = claim->engine.submit(std::move(wanted));
    return MKRT_OK;
  });
}

mkrt_status mkrt_cancel(mkrt_engine* engine, uint64_t id) {
  return guarded([&] {
    const Claim claim(engine);
    if (!claim) return mkrt::last_status();
    if (claim->engine.cancel(id)) return MKRT_OK;
    return keep(MKRT_BAD_ARGUMENT, fmt::format("engine: error: no unfinished request has the id {}", id));
  });
}

mkrt_status mkrt_advance(mkrt_engine* engine) {
  return guarded([&] {
    const Claim claim(engine);
    return claim ? keep(claim->engine.step()) : mkrt::last_status();
  });
}

mkrt_status mkrt_take_progress(mkrt_engine* engine, mkrt_progress* progress) {
  return guarded([&] {
    const Claim claim(engine);
    mkrt_progress out{};
    if (!claim || missing(progress, "progress") || !mkrt::take(progress, out) ||
        unknown_logprobs(out.logprobs_size, "mkrt_progress.logprobs_size"))
      return mkrt::last_status();
    Taken<mkrt::Progress>& taken = claim->progress;
    const mkrt_progress none{out.size, out.logprobs_size, 0, nullptr, nullptr, 0, 0};
    out = none;
    if (taken.advance([&] { return claim->engine.take_progress(); })) {
      out.request = taken.now.id;
      out.ids = taken.now.ids.data();
      out.count = static_cast<uint32_t>(taken.now.ids.size());
      out.logprobs = taken.logprobs_of(out.logprobs_size);
      out.top_count = taken.top_count();
    }
    return mkrt::give(out, progress) ? MKRT_OK : mkrt::last_status();
  });
}

mkrt_status mkrt_take_outcome(mkrt_engine* engine, mkrt_outcome* outcome) {
  return guarded([&] {
    const Claim claim(engine);
    mkrt_outcome in{};
    if (!claim || missing(outcome, "outcome") || !mkrt::take(outcome, in) ||
        unknown_logprobs(in.logprobs_size, "mkrt_outcome.logprobs_size"))
      return mkrt::last_status();
    Taken<mkrt::Outcome>& taken = claim->outcomes;
    mkrt_outcome out{};
    out.logprobs_size = in.logprobs_size;
    out.error = "";
    if (taken.advance([&] { return claim->engine.take_outcomes(); })) {
      const mkrt::Outcome& now = taken.now;
      const mkrt::Error error{now.error, now.error_kind};
      out.request = now.id;
      out.reason = reason_of(now.reason);
      out.status = now.reason == mkrt::FinishReason::kError ? mkrt::status_of(error) : MKRT_OK;
      out.error = now.error.c_str();
      out.ids = now.new_ids.data();
      out.count = static_cast<uint32_t>(now.new_ids.size());
      out.logprobs = taken.logprobs_of(out.logprobs_size);
      out.top_count = taken.top_count();
      out.cached_tokens = now.cached_tokens;
    }
    return mkrt::give(out, outcome) ? MKRT_OK : mkrt::last_status();
  });
}

mkrt_status mkrt_stats(mkrt_engine* engine, mkrt_engine_stats* stats) {
  return guarded([&] {
    const Claim claim(engine);
    if (!claim || missing(stats, "stats")) return mkrt::last_status();
    const mkrt::EngineStats now = claim->engine.stats();
    const mkrt_engine_stats out{0,
                                now.running,
                                now.waiting,
                                now.pages,
                                now.pages_used,
                                0,
                                claim->engine.clock(),
                                now.launches,
                                now.steps,
                                now.rows,
                                now.preemptions,
                                now.prefix_queries,
                                now.prefix_hits};
    return mkrt::give(out, stats) ? MKRT_OK : mkrt::last_status();
  });
}
