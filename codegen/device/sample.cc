// Sampling turns a row of logits into a token (docs/sampling.md). The tokens are those of
// runtime/session/sample.cc; this code does not sort.
//
// Each search looks for the element at which a running sum reaches a target. These elements are the k-th
// greatest logit, the last token of the nucleus, and the token sampled. One radix search finds each of them.
// A pass over the row adds up the elements of each digit, from the greatest digit down. The digit in which
// the target falls is the next digit of the element's code. Sums are of integers, so their order does not
// matter.
#include "codegen/device/bodies.h"

namespace mk {

namespace {

constexpr u32 kIdBits = 18;
constexpr u32 kLastId = kMaxVocab - 1;
constexpr u32 kDigitBits = 3;
constexpr u32 kDigits = 1u << kDigitBits;
constexpr u32 kLoads = 8;       // logits that a thread loads at once
constexpr u32 kStripLoads = 4;  // strips' greatest logits that a thread loads at once
// kBlockIds is the size of a block of ids. A search notes for each block whether it is worth reading.
constexpr u32 kBlockIds = 4096;
static_assert(kMaxVocab == 1u << kIdBits && kMaxVocab / kBlockIds <= 64);
static_assert(kBlockIds % (kLoads * kConsumerThreads) == 0);
static_assert(kDigits == kConsumerWarps);

// Bins are the scratch of a search.
struct Bins {
  AS3 u64* sum;    // [kDigits, kConsumerThreads]: sum of each thread
  AS3 u64* total;  // [kDigits]: sum of all threads
  AS3 u64* best;   // [kConsumerWarps]: greatest rank of each warp
  AS3 f32* logit;  // [kLoads, kConsumerThreads]: logits that each thread has loaded
  MK_INLINE explicit Bins(const Worker& w)
      : sum((AS3 u64*)w.scratch()),
        total(sum + kDigits * kConsumerThreads),
        best(total + kDigits),
        logit((AS3 f32*)(best + kConsumerWarps)) {}
};
static_assert((kDigits * kConsumerThreads + kDigits + kConsumerWarps) * sizeof(u64) +
                  kLoads * kConsumerThreads * sizeof(f32) <=
              kScratchBytes);

// rank_of() joins a logit and its id to one number, in the order of likelihood. Greater logits have greater
// ranks, and of equal logits the lower id has. All ranks are greater than 0.
MK_INLINE u64 rank_of(f32 logit, u32 id) {
  const u32 bits = __builtin_bit_cast(u32, logit);
  const u32 order = bits >> 31 ? ~bits : bits | 0x80000000u;
  return (u64)order << kIdBits | (kLastId - id);
}
MK_INLINE f32 logit_of(u64 rank) {
  const u32 order = (u32)(rank >> kIdBits);
  return as_f32(order >> 31 ? order & 0x7fffffffu : ~order);
}
MK_INLINE u32 id_of(u64 rank) {
  return kLastId - (u32)(rank & kLastId);
}

MK_INLINE u64 shuffle_xor(u64 v, u32 mask) {
  const u32 lo = __builtin_bit_cast(u32, mk_shuffle_xor(as_f32((u32)v), mask));
  const u32 hi = __builtin_bit_cast(u32, mk_shuffle_xor(as_f32((u32)(v >> 32)), mask));
  return (u64)hi << 32 | lo;
}

// Changes are what a request changes in its logits.
struct Changes {
  AS1 const MkSample* sample;  // null: nothing

  MK_INLINE AS1 const u32* seen() const { return (AS1 const u32*)sample->seen; }
  MK_INLINE AS1 const u32* allowed() const { return (AS1 const u32*)sample->allowed; }
  MK_INLINE AS1 const MkBias* biases() const { return (AS1 const MkBias*)sample->biases; }

  // first_bias() is the index of the first bias of an id from `id` on in its block, or that behind the block.
  MK_INLINE u32 first_bias(u32 id, u32 end) const {
    u32 first = ((AS1 const u32*)sample->bias_begin)[id / kBiasBlockIds];
    while (first < end) {
      const u32 middle = (first + end) / 2;
      if (biases()[middle].id < id)
        first = middle + 1;
      else
        end = middle;
    }
    return first;
  }
  MK_INLINE u32 end_of_block(u32 id) const {
    return ((AS1 const u32*)sample->bias_begin)[id / kBiasBlockIds + 1];
  }

  // logit() is an id's changed logit. There must be changes.
  MK_INLINE f32 logit(u32 id, f32 raw) const {
    if (allowed() && !(allowed()[id / 32] >> id % 32 & 1)) return -kMaxLogit;
    const bool is_seen = seen() && seen()[id / 32] >> id % 32 & 1;
    bool changed = is_seen;
    f32 before = 0, after = 0;
    if (biases()) {
      const u32 end = end_of_block(id), at = first_bias(id, end);
      if (at < end && biases()[at].id == id)
        before = biases()[at].before, after = biases()[at].after, changed = true;
    }
    if (!changed) return plain_logit(raw);
    return biased(raw, before, after, is_seen ? sample->sampling.repetition_penalty : 1);
  }

  // has() says whether a strip has changed logits.
  MK_INLINE bool has(u32 strip) const {
    if (!sample) return false;
    const u32 shift = strip % 2 * kStripRows, id = strip * kStripRows;
    if (seen() && (seen()[strip / 2] >> shift & 0xffffu) != 0) return true;
    if (allowed() && (~allowed()[strip / 2] >> shift & 0xffffu) != 0) return true;
    if (!biases()) return false;
    const u32 end = end_of_block(id), at = first_bias(id, end);
    return at < end && biases()[at].id < id + kStripRows;
  }
};
static_assert(kBiasBlockIds % kStripRows == 0);

// Row is one request's row of logits.
struct Row {
  AS1 const f32* logits;
  AS1 const f32* best_value;
  AS1 const u32* best_index;
  Changes changes;
  u32 vocab;
};

MK_INLINE u64 greatest_of_strip(const Row& row, u32 strip, u64 below) {
  u64 best = 0;
  for (u32 id = strip * kStripRows; id < (strip + 1) * kStripRows && id < row.vocab; ++id) {
    const f32 logit = row.logits[id];
    const u64 rank = rank_of(row.changes.sample ? row.changes.logit(id, logit) : plain_logit(logit), id);
    if (rank < below && rank > best) best = rank;
  }
  return best;
}

// greatest() is the greatest rank below a bound, for all threads. Logits are read only in strips whose
// best_value does not count: it is not below the bound, or the strip has changed logits.
MK_INLINE u64 greatest(const Worker& w, const Row& row, u64 below) {
  const Bins bins(w);
  u64 best = 0;
  for (u32 first = w.thread; first * kStripRows < row.vocab; first += kStripLoads * kConsumerThreads) {
    u32 again = 0;  // strips whose logits are read, a bit each
    if (row.changes.sample) {
      MK_ROLLED
      for (u32 i = 0; i < kStripLoads; ++i) {
        const u32 strip = first + i * kConsumerThreads;
        if (strip * kStripRows < row.vocab && row.changes.has(strip)) again |= 1u << i;
      }
    }
    MK_UNROLL
    for (u32 i = 0; i < kStripLoads; ++i) {
      const u32 strip = first + i * kConsumerThreads;
      if (strip * kStripRows >= row.vocab || (again >> i & 1)) continue;
      const u64 rank = rank_of(plain_logit(row.best_value[strip]), row.best_index[strip]);
      if (rank >= below)
        again |= 1u << i;
      else if (rank > best)
        best = rank;
    }
    for (; again != 0; again &= again - 1) {
      const u32 strip = first + (u32)__builtin_ctz(again) * kConsumerThreads;
      const u64 rank = greatest_of_strip(row, strip, below);
      if (rank > best) best = rank;
    }
  }
  for (u32 mask = kWarpLanes / 2; mask > 0; mask /= 2) {
    const u64 other = shuffle_xor(best, mask);
    if (other > best) best = other;
  }
  consumer_barrier();  // all threads have read the result of the search before
  if (w.lane() == 0) bins.best[w.warp()] = best;
  consumer_barrier();
  for (u32 i = 0; i < kConsumerWarps; ++i)
    if (bins.best[i] > best) best = bins.best[i];
  return best;
}

// rank_in() counts the logits that are not below `logit`, for all threads. Logits are read only in strips
// whose greatest one is not below it. Requires a row without changes.
MK_INLINE u32 rank_in(const Worker& w, const Row& row, f32 logit) {
  const Bins bins(w);
  u64 count = 0;
  for (u32 strip = w.thread; strip * kStripRows < row.vocab; strip += kConsumerThreads) {
    if (plain_logit(row.best_value[strip]) < logit) continue;
    for (u32 id = strip * kStripRows; id < (strip + 1) * kStripRows && id < row.vocab; ++id)
      count += plain_logit(row.logits[id]) >= logit ? 1 : 0;
  }
  for (u32 mask = kWarpLanes / 2; mask > 0; mask /= 2) count += shuffle_xor(count, mask);
  consumer_barrier();  // all threads have read the result of the search before
  if (w.lane() == 0) bins.best[w.warp()] = count;
  consumer_barrier();
  count = 0;
  for (u32 i = 0; i < kConsumerWarps; ++i) count += bins.best[i];
  return (u32)count;
}

enum class Goal : u32 { kTotal, kTopK, kTopP, kSample };

// Search is what a search adds up. Codes of a search by rank are ranks. Codes of a search by id are ids,
// counted from the last.
struct Search {
  Goal goal;
  u64 cut;       // ranks below do not count
  u64 min;       // masses below do not count
  f32 greatest;  // greatest logit
  f32 scale;

  MK_INLINE bool by_rank() const { return goal == Goal::kTopK || goal == Goal::kTopP; }
  // measure() is what an element adds to the sum; 0: the element does not count.
  MK_INLINE u64 measure(u64 rank) const {
    if (rank < cut) return 0;
    if (goal == Goal::kTopK) return 1;
    const u64 mass = mass_of(logit_of(rank) - greatest, scale);
    return mass < min ? 0 : mass;
  }
};

// add_up() is one pass. Each element whose code begins with the prefix is added to the bin of its next digit.
// The result is the set of this thread's blocks that have such elements. Other blocks need not be read again.
// Loaded logits go to shared memory, so that one piece of code adds all of them.
MK_INLINE u64 add_up(const Worker& w, const Row& row, const Search& s, u64 prefix, u32 shift, u64 blocks) {
  AS3 u64* sum = Bins(w).sum + w.thread;
  AS3 f32* loaded = Bins(w).logit + w.thread;
  for (u32 digit = 0; digit < kDigits; ++digit) sum[digit * kConsumerThreads] = 0;
  u64 found = 0;
  for (u32 first = w.thread; first < row.vocab; first += kLoads * kConsumerThreads) {
    const u64 block = (u64)1 << first / kBlockIds;
    if (!(blocks & block)) continue;
    f32 logits[kLoads];
    MK_UNROLL
    for (u32 i = 0; i < kLoads; ++i) {
      const u32 id = first + i * kConsumerThreads;
      logits[i] = id < row.vocab ? row.logits[id] : 0;
    }
    MK_UNROLL
    for (u32 i = 0; i < kLoads; ++i) loaded[i * kConsumerThreads] = logits[i];
    MK_ROLLED
    for (u32 i = 0; i < kLoads; ++i) {
      const u32 id = first + i * kConsumerThreads;
      if (id >= row.vocab) break;
      const f32 logit = loaded[i * kConsumerThreads];
      const u64 rank = rank_of(row.changes.sample ? row.changes.logit(id, logit) : plain_logit(logit), id);
      const u64 code = s.by_rank() ? rank : rank & kLastId;
      if (code >> kDigitBits >> shift != prefix) continue;
      if (const u64 measure = s.measure(rank)) {
        sum[(code >> shift & (kDigits - 1)) * kConsumerThreads] += measure;
        found |= block;
      }
    }
  }
  return found;
}

// total_bins() adds the sums of all threads, one warp for each digit.
MK_INLINE void total_bins(const Worker& w) {
  const Bins bins(w);
  consumer_barrier();
  u64 sum = 0;
  for (u32 i = w.lane(); i < kConsumerThreads; i += kWarpLanes)
    sum += bins.sum[w.warp() * kConsumerThreads + i];
  for (u32 mask = kWarpLanes / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (w.lane() == 0) bins.total[w.warp()] = sum;
  consumer_barrier();
}

// target_of() is the running sum that is looked for, where `all` is the sum of all elements.
MK_INLINE u64 target_of(Goal goal, AS1 const MkSampling* p, u32 step, u64 all) {
  if (goal == Goal::kTopK) return p->top_k;
  if (goal == Goal::kTopP) return share_of(p->top_p, all);
  return sample_below(all, p->seed, p->position + step) + 1;
}

// find() is the code of the element with which the running sum reaches its target, from the greatest code
// down. The lowest code is the result if no element does. The result for kTotal is the sum of all elements.
MK_INLINE u64 find(const Worker& w, const Row& row, const Search& s, AS1 const MkSampling* p, u32 step) {
  const Bins bins(w);
  const u32 digits = s.by_rank() ? (32 + kIdBits + kDigitBits - 1) / kDigitBits : kIdBits / kDigitBits;
  u64 prefix = 0, target = 0, blocks = ~(u64)0;
  for (u32 left = digits; left > 0; --left) {
    blocks = add_up(w, row, s, prefix, (left - 1) * kDigitBits, blocks);
    total_bins(w);
    if (left == digits) {
      u64 all = 0;
      for (u32 digit = 0; digit < kDigits; ++digit) all += bins.total[digit];
      if (s.goal == Goal::kTotal) {
        prefix = all;
        break;
      }
      target = target_of(s.goal, p, step, all);
    }
    u32 digit = kDigits - 1;
    for (; digit > 0 && target > bins.total[digit]; --digit) target -= bins.total[digit];
    prefix = prefix << kDigitBits | digit;
  }
  return prefix;
}

struct Choice {
  u32 id;
  f32 log_total;  // log of the unmodified softmax's sum, where log-probabilities are asked for
};

// choose() runs the searches that the request asks for, one after the other. `first` is the rank of the
// greedy choice.
MK_INLINE Choice choose(const Worker& w, Row row, u64 likeliest, u64 first, AS1 const MkSampling* p,
                        u32 step) {
  Choice choice{id_of(first), 0};
  const Changes changes = row.changes;
  u64 cut = 0;
  for (u32 i = 0; i <= (u32)Goal::kSample; ++i) {
    const Goal goal = (Goal)i;
    const bool total = goal == Goal::kTotal;
    if (total ? p->logprobs == 0 : p->temperature == 0) continue;
    if ((goal == Goal::kTopK && p->top_k == 0) || (goal == Goal::kTopP && p->top_p >= 1)) continue;
    row.changes = total ? Changes{nullptr} : changes;
    const Search search{goal, cut, goal == Goal::kSample ? min_mass(p->min_p) : 0,
                        logit_of(total ? likeliest : first), mass_scale(total ? 1 : p->temperature)};
    const u64 found = find(w, row, search, p, step);
    if (total)
      choice.log_total = log_of_mass(found);
    else if (goal == Goal::kSample)
      choice.id = id_of(found);
    else
      cut = found;
  }
  if (choice.id >= row.vocab) choice.id = row.vocab - 1;  // the row may hold anything after a fault
  return choice;
}

}  // namespace

MK_BODY void mkb_sample(Worker* w, const SampleArgs* a, u32 request) {
  AS1 const MkSample* sample = a->samples + a->launch_request[request];
  if (sample->limit == 0) return;
  const u32 sampled_before = w->arenas()->step;  // each step of the launch samples one token
  AS1 const MkSampling* p = &sample->sampling;
  AS1 u32* seen = (AS1 u32*)sample->seen;
  const u64 row_index = a->logit_rows == a->tokens ? a->first_row[request] + a->rows[request] - 1 : request;
  const u32 strips = (a->vocab + kStripRows - 1) / kStripRows;
  Row row{a->logits + row_index * a->vocab,
          a->best_value + row_index * strips,
          a->best_index + row_index * strips,
          {nullptr},
          a->vocab};
  AS1 MkLogprobs* logprobs = (AS1 MkLogprobs*)sample->logprobs + sampled_before;
  const u32 tops = p->logprobs ? p->logprobs - 1 : 0;
  // Round 0 finds the greedy choice where logits are changed. Round 1 finds the likeliest token of the plain
  // logits. Further rounds find the next ones whose log-probabilities are asked for.
  const bool changed = (sample->seen | sample->allowed | sample->biases) != 0;
  u64 first = 0, likeliest = 0, rank = 0;
  u32 noted = 0;
  for (u32 round = changed ? 0 : 1; round <= 1 || round <= tops; ++round) {
    row.changes = {round == 0 ? sample : nullptr};
    rank = greatest(*w, row, round <= 1 ? ~(u64)0 : rank);
    if (rank == 0) break;
    if (first == 0) first = rank;
    if (round == 1) likeliest = rank;
    if (round == 0 || round > tops) continue;
    if (w->thread == 0) {
      logprobs->top_id[noted] = id_of(rank);
      logprobs->top[noted] = logit_of(rank) - logit_of(likeliest);
    }
    ++noted;
  }
  row.changes = {changed ? sample : nullptr};
  const Choice choice = choose(*w, row, likeliest, first, p, sampled_before);

  const f32 top = logit_of(likeliest);
  if (w->thread == 0) {
    AS1 u32* sampled = (AS1 u32*)sample->sampled;
    sampled[0] = sampled_before + 1;
    sampled[1 + sampled_before] = choice.id | (is_finite_greatest(top) ? 0 : kNotFinite);
    a->next[request] = choice.id;
    if (seen) seen[choice.id / 32] |= 1u << choice.id % 32;
    if (p->logprobs) logprobs->sampled = plain_logit(row.logits[choice.id]) - top - choice.log_total;
  }
  if (p->logprobs == 0) return;
  row.changes = {nullptr};
  const u32 rank_of_choice = rank_in(*w, row, plain_logit(row.logits[choice.id]));
  if (w->thread != 0) return;
  logprobs->rank = rank_of_choice;
  for (u32 i = 0; i < noted; ++i) logprobs->top[i] -= choice.log_total;
}

}  // namespace mk
