// A launch of the engine makes the batch of the planned requests, and hands on the sampled tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/engine/engine.h"

namespace mkrt {

Status Engine::launch() {
  const Result<PlanCounts> plan = plan_step(
      roster_, pages_,
      {limits_.max_tokens, limits_.max_requests, options_.max_rows_beside_decodes, options_.preemption});
  if (!plan.ok()) return plan.error();
  const Result<Batch> batch = fill_batch();
  if (!batch.ok()) return batch.error();
  if (Status status = stepper_->step(batch.value(), result_); !status.ok()) return status;
  if (result_.scored.size() != scored_.size())
    return Error{"step: error: the result has not the log-probabilities that the batch asks for"};
  clock_ += result_.steps;
  ++stats_.launches;
  stats_.steps += result_.steps;
  stats_.rows += tokens_.size();
  stats_.preemptions += plan.value().preempted;
  stats_.prefix_queries += plan.value().looked_up_tokens;
  stats_.prefix_hits += plan.value().cached_tokens;
  return take_tokens();
}

// Returns the number of steps of the next launch. A prompt with rows left, and a request that arrives, wait
// for one step at most. A launch ends where the biases of a request change. One that scores rows has one
// step, because the logits of the next step take their place.
uint32_t Engine::steps_of_launch() const {
  uint64_t steps = std::clamp(options_.steps_per_launch, 1u, kMaxSteps);
  if (!later_.empty()) steps = std::min(steps, later_.begin()->first - clock_);
  for (const Sequence& request : roster_.running)
    if (request.pending() > request.rows || request.lacks_scores())
      steps = 1;
    else
      steps = std::min<uint64_t>(steps, request.sampler.max_steps());
  return static_cast<uint32_t>(steps);
}

// Lays out the planned rows, request after request. A request that samples several tokens gets the pages for
// them, as far as pages are free.
Result<Batch> Engine::fill_batch() {
  const uint32_t steps = steps_of_launch();
  tokens_.clear();
  row_begin_.assign(1, 0);
  kv_len_.clear();
  page_begin_.assign(1, 0);
  page_index_.clear();
  samples_.clear();
  scored_.clear();
  for (Sequence& r : roster_.running) {
    if (r.rows == 0) continue;
    const uint32_t limit = r.pending() == r.rows ? std::min(steps, r.longest + 1 - r.fed - r.rows) : 0;
    if (limit > 1)
      if (Status status = run_ahead(r, limit - 1, pages_); !status.ok()) return status.error();
    add_scored_rows(r);
    const auto begin = r.tokens.begin() + r.fed;
    tokens_.insert(tokens_.end(), begin, begin + r.rows);
    row_begin_.push_back(static_cast<int32_t>(tokens_.size()));
    kv_len_.push_back(static_cast<int32_t>(r.fed + r.rows));
    page_index_.insert(page_index_.end(), r.pages.begin(), r.pages.end());
    page_begin_.push_back(static_cast<int32_t>(page_index_.size()));
    samples_.push_back(r.sampler.next(limit, r.stop_ids));
  }
  return Batch{.tokens = tokens_,
               .row_begin = row_begin_,
               .kv_len = kv_len_,
               .pages = {page_begin_, page_index_},
               .samples = samples_,
               .scored = scored_};
}

// Adds the request's rows whose logits are those of a token of its prompt that has no log-probability yet.
void Engine::add_scored_rows(const Sequence& r) {
  if (!r.lacks_scores()) return;
  const auto first_row = static_cast<uint32_t>(tokens_.size());
  const uint32_t end = std::min(r.fed + r.rows, r.prompt - 1);
  for (uint32_t p = std::max(r.fed, static_cast<uint32_t>(r.prompt_samples.size())); p < end; ++p)
    scored_.push_back({static_cast<int32_t>(first_row + p - r.fed), r.tokens[p + 1], r.prompt_logprobs - 1});
}

// Hands the log-probabilities of request b's rows to it. Returns whether all have finite logits.
bool Engine::take_scores(Sequence& r, size_t b) {
  bool finite = true;
  for (size_t& i = scores_taken_; i < scored_.size() && scored_[i].row < row_begin_[b + 1]; ++i) {
    r.prompt_samples.push_back(
        from_abi(scored_[i].id, result_.scored[i], std::min(scored_[i].top, limits_.vocab)));
    finite = finite && !std::isnan(r.prompt_samples.back().logprob);
  }
  return finite;
}

// Hands the sampled tokens to the requests. Requests that end with these tokens leave.
Status Engine::take_tokens() {
  std::vector<Sequence>& running = roster_.running;
  scores_taken_ = 0;
  for (size_t i = 0, b = 0; i < running.size();) {
    const Result<bool> ended = running[i].rows > 0 ? take_tokens(running[i], b++) : false;
    if (!ended.ok()) return ended.error();
    if (ended.value())
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    else
      ++i;
  }
  return {};
}

// Gives a request the first tokens that request b of the batch sampled.
void Engine::hand_on(Sequence& r, size_t b, std::span<const int32_t> sampled) {
  const bool first = r.tokens.size() == r.prompt;
  r.tokens.insert(r.tokens.end(), sampled.begin(), sampled.end());
  r.losses = 0;
  const size_t samples = r.samples.size();
  if (const MkSampling& sampling = r.sampler.sampling(); sampling.logprobs > 0) {
    add_samples(result_, b, sampling, limits_.vocab, r.samples);
    r.samples.resize(samples + sampled.size());
  }
  r.sampler.took(sampled);
  if (!r.stream) return;
  progress_.push_back({.id = r.id,
                       .ids = {sampled.begin(), sampled.end()},
                       .samples = {r.samples.begin() + static_cast<ptrdiff_t>(samples), r.samples.end()},
                       .prompt_samples = first ? r.prompt_samples : std::vector<Sampled>(),
                       .cached_tokens = r.cached_tokens});
}

// Hands the sampled tokens to request b of the batch, once its earlier tokens are all fed. Returns whether it
// has ended. A token of the prompt or a new one without a finite greatest logit ends the request with an
// error. That token and later ones are not handed on, unless the request wants no new token.
Result<bool> Engine::take_tokens(Sequence& r, size_t b) {
  const auto end_not_finite = [&](const char* text) {
    end(r, FinishReason::kError, {fmt::format("logits: error: {}", text), ErrorKind::kNotFinite});
    return true;
  };
  if (!take_scores(r, b)) return end_not_finite(kPromptNotFiniteText);
  r.fed += r.rows;
  if (r.pending() > 0) {
    if (Status status = keep_full_pages(r, pages_); !status.ok()) return status.error();
    return false;
  }
  const std::span<const int32_t> all = result_.of(b);
  const std::span<const int32_t> sampled = r.prompt_only ? all : all.first(result_.finite[b]);
  stats_.rows += all.size() - 1;  // the last one is not fed yet
  if (!sampled.empty()) hand_on(r, b, sampled);
  if (sampled.size() < all.size()) return end_not_finite(kNotFiniteText);
  r.fed += static_cast<uint32_t>(all.size()) - 1;
  if (Status status = keep_full_pages(r, pages_); !status.ok()) return status.error();
  const bool stop = std::ranges::binary_search(r.stop_ids, sampled.back());
  if (stop || r.fed == r.longest) {
    end(r, stop ? FinishReason::kStop : FinishReason::kLength);
    return true;
  }
  if (Status status = trim(r, pages_); !status.ok()) return status.error();
  return false;
}

}  // namespace mkrt
