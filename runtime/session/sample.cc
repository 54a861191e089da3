#include "runtime/session/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace mkrt {
namespace {

// Orders candidates by descending logit, and equal logits by ascending id.
bool goes_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

bool has(std::span<const uint32_t> ids, uint32_t id) {
  return ids[id / 32] >> id % 32 & 1;
}

// Returns every id with its changed logit.
std::vector<Candidate> candidates(std::span<const float> logits, float penalty, const LogitChanges& changes) {
  std::vector<Candidate> out(logits.size());
  auto bias = changes.biases.begin();
  for (uint32_t id = 0; id < logits.size(); ++id) {
    const float penalty_of_id = !changes.seen.empty() && has(changes.seen, id) ? penalty : 1;
    const bool is_biased = bias != changes.biases.end() && bias->id == id;
    const MkBias of = is_biased ? *bias++ : MkBias{id, 0, 0};
    const bool masked = !changes.allowed.empty() && !has(changes.allowed, id);
    out[id] = {id, masked ? -kMaxLogit : biased(logits[id], of.before, of.after, penalty_of_id), 0};
  }
  return out;
}

void weigh(std::vector<Candidate>& all, float temperature) {
  const float greatest = std::min_element(all.begin(), all.end(), goes_before)->logit;
  for (Candidate& c : all) c.mass = mass_of(c.logit - greatest, mass_scale(temperature));
}

uint64_t total(const std::vector<Candidate>& all) {
  uint64_t sum = 0;
  for (const Candidate& c : all) sum += c.mass;
  return sum;
}

// Keeps the likeliest candidates. A candidate is kept if those before it have less than `share` of the total
// mass.
void keep_share(std::vector<Candidate>& sorted, float share) {
  const uint64_t wanted = share_of(share, total(sorted));
  uint64_t before = 0;
  size_t kept = 0;
  while (kept < sorted.size() && before < wanted) before += sorted[kept++].mass;
  sorted.resize(kept);
}

void add_logprobs(std::span<const float> logits, size_t top, Sampled& sampled) {
  std::vector<Candidate> all = candidates(logits, 1, {});
  weigh(all, 1);
  const float log_total = log_of_mass(total(all));
  const float logit = all[static_cast<size_t>(sampled.id)].logit;
  top = std::min(top, all.size());
  const auto kept = all.begin() + static_cast<ptrdiff_t>(std::max<size_t>(1, top));
  std::partial_sort(all.begin(), kept, all.end(), goes_before);
  const auto logprob = [&](float of) { return of - all.front().logit - log_total; };
  sampled.logprob = logprob(logit);
  sampled.rank =
      static_cast<uint32_t>(std::ranges::count_if(all, [&](const Candidate& c) { return c.logit >= logit; }));
  for (size_t i = 0; i < top; ++i)
    sampled.top.push_back({static_cast<int32_t>(all[i].id), logprob(all[i].logit)});
}

}  // namespace

Status check_sampling(const MkSampling& s) {
  const auto fault = [](const char* field, auto value, const char* expected) {
    return Error{fmt::format("{}: error: is {}, expected {}", field, value, expected)};
  };
  if (!(s.repetition_penalty >= 0.001f && s.repetition_penalty <= 1000))
    return fault("repetition_penalty", s.repetition_penalty, "0.001 to 1000");
  if (!(s.temperature >= 0 && s.temperature <= 1e6f))
    return fault("temperature", s.temperature, "0 to 1000000");
  if (!(s.top_p > 0 && s.top_p <= 1)) return fault("top_p", s.top_p, "more than 0, at most 1");
  if (!(s.min_p >= 0 && s.min_p <= 1)) return fault("min_p", s.min_p, "0 to 1");
  if (s.logprobs > 1 + kMaxTop) return fault("logprobs", s.logprobs, "0 to 21");
  return {};
}

void index_biases(std::span<const MkBias> biases, std::span<uint32_t> begin) {
  uint32_t at = 0;
  for (uint32_t block = 0; block < begin.size(); ++block) {
    while (at < biases.size() && biases[at].id / kBiasBlockIds < block) ++at;
    begin[block] = at;
  }
}

std::vector<Candidate> survivors(std::span<const float> logits, const MkSampling& s,
                                 const LogitChanges& changes) {
  std::vector<Candidate> kept = candidates(logits, s.repetition_penalty, changes);
  weigh(kept, s.temperature);
  if (s.top_k > 0 || s.top_p < 1) std::sort(kept.begin(), kept.end(), goes_before);
  if (s.top_k > 0 && s.top_k < kept.size()) kept.resize(s.top_k);
  if (s.top_p < 1) keep_share(kept, s.top_p);
  std::erase_if(kept, [&](const Candidate& c) { return c.mass < min_mass(s.min_p); });
  std::sort(kept.begin(), kept.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  return kept;
}

Sampled sample(std::span<const float> logits, const MkSampling& s, const LogitChanges& changes) {
  Sampled sampled{};
  if (s.temperature == 0) {
    const std::vector<Candidate> all = candidates(logits, s.repetition_penalty, changes);
    sampled.id = static_cast<int32_t>(std::min_element(all.begin(), all.end(), goes_before)->id);
  } else {
    const std::vector<Candidate> kept = survivors(logits, s, changes);
    const uint64_t at = sample_below(total(kept), s.seed, s.position);
    uint64_t below = 0;
    for (const Candidate& c : kept) {
      sampled.id = static_cast<int32_t>(c.id);
      below += c.mass;
      if (below > at) break;
    }
  }
  if (s.logprobs > 0) add_logprobs(logits, s.logprobs - 1, sampled);
  return sampled;
}

Sampled score(std::span<const float> logits, int32_t id, uint32_t top) {
  Sampled sampled{.id = id, .top = {}};
  add_logprobs(logits, top, sampled);
  float greatest = plain_logit(logits[0]);
  for (const float logit : logits) greatest = std::max(greatest, plain_logit(logit));
  if (!is_finite_greatest(greatest)) sampled.logprob = std::numeric_limits<float>::quiet_NaN();
  return sampled;
}

MkLogprobs to_abi(const Sampled& sampled) {
  MkLogprobs logprobs{sampled.logprob, {}, {}, sampled.rank};
  for (size_t i = 0; i < sampled.top.size(); ++i) {
    logprobs.top[i] = sampled.top[i].logprob;
    logprobs.top_id[i] = static_cast<uint32_t>(sampled.top[i].id);
  }
  return logprobs;
}

Sampled from_abi(int32_t id, const MkLogprobs& logprobs, size_t top) {
  Sampled sampled{.id = id, .logprob = logprobs.sampled, .top = {}, .rank = logprobs.rank};
  for (size_t i = 0; i < top; ++i)
    sampled.top.push_back({static_cast<int32_t>(logprobs.top_id[i]), logprobs.top[i]});
  return sampled;
}

}  // namespace mkrt
