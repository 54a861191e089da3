// These tests compare the products of experts on the processor with double loops.
#include "tests/unit/processor/product.h"

namespace mk {
namespace {

constexpr u32 kExperts = 5;

struct Case {
  Input input;
  u32 tokens, top_k, rows, cols;
  Activation gate = Activation::kNone;
  bool gather = true;
  u32 strips = 1;  // strips of a task
  bool biased = false;
};

// Choices are the rows of active experts. Expert `idle` has none.
struct Choices {
  std::vector<u32> expert, rows, begin, token;

  Choices(const Case& c, u32 idle) {
    std::vector<std::vector<u32>> tokens_of(kExperts);
    std::mt19937 rng(c.tokens);
    for (u32 t = 0; t < c.tokens; ++t)
      for (u32 i = 0, e = rng() % kExperts; i < c.top_k; e = (e + 1) % kExperts)
        if (e != idle) tokens_of[e].push_back(t), ++i;
    for (u32 e = 0; e < kExperts; ++e) {
      if (tokens_of[e].empty()) continue;
      expert.push_back(e), rows.push_back(static_cast<u32>(tokens_of[e].size()));
      begin.push_back(static_cast<u32>(token.size()));
      token.insert(token.end(), tokens_of[e].begin(), tokens_of[e].end());
    }
  }
  u32 active() const { return static_cast<u32>(expert.size()); }
};

// Problem is the weights of all experts, one behind the other, and the rows that they multiply.
struct Problem {
  Case c;
  Choices choices;
  std::vector<Matrix> experts;
  std::vector<char> packed;
  X x;
  std::vector<float> bias, up_bias;  // [expert][out_cols]; NaN follows, and stands for experts without rows

  Problem(const Case& of, WeightType type, u32 idle)
      : c(of), choices(of, idle), x(of.input, of.gather ? of.tokens : of.tokens * of.top_k, of.cols) {
    for (u32 e = 0; e < kExperts; ++e) {
      const u32 seed = 20 + 2 * e;
      if (c.gate == Activation::kNone)
        experts.push_back(pack_matrix({make_tensor(type, c.rows, c.cols, seed)}));
      else
        experts.push_back(pack_matrix(
            {make_tensor(type, c.rows / 2, c.cols, seed), make_tensor(type, c.rows / 2, c.cols, seed + 1)},
            8));
      packed.insert(packed.end(), experts[e].packed.begin(), experts[e].packed.end());
    }
    bias = make_bias(7), up_bias = make_bias(8);
  }
  // Biases reach the limits of a gate.
  std::vector<float> make_bias(u32 seed) const {
    std::vector<float> made = random_floats(kExperts * out_cols(), seed, 5);
    for (u32 e = 0; e < kExperts; ++e)
      if (std::count(choices.expert.begin(), choices.expert.end(), e) == 0)
        std::fill_n(made.begin() + e * out_cols(), out_cols(), NAN);
    made.insert(made.end(), 32, NAN);
    return made;
  }
  u32 out_cols() const { return c.gate == Activation::kNone ? c.rows : c.rows / 2; }
  u32 rows() const { return c.tokens * c.top_k; }
};

struct RunOptions {
  bool gives_up = false;       // the worker has given up a wait
  bool bf16 = false;           // out is bf16
  bool by_expert = false;      // tasks of an expert follow each other
  bool after_another = false;  // a segment of other rows ends with the expert that comes first
};

std::vector<float> run(const Problem& p, const RunOptions& options = {}) {
  const Matrix& m = p.experts[0];
  Out out(size_t{p.rows()} * p.out_cols());
  AllArgs args = make_args(m, p.x, p.c.tokens);
  args.x_rows = p.c.tokens;
  args.gate = p.c.gate, args.gates = 1u << static_cast<u32>(p.c.gate);
  args.out_cols = p.out_cols(), args.out_bf16 = options.bf16;
  if (p.c.biased) args.biased_experts = kExperts, args.bias = global(p.bias.data());
  if (p.c.biased && p.c.gate != Activation::kNone) args.up_bias = global(p.up_bias.data());
  args.out = global(out.data());
  ProductWorker worker(m.shape, p.c.tokens);
  Worker* const w = &worker.w;
  *w->gave_up_word() = options.gives_up;
  ExpertArgs a{};
  a.product = worker.with_epilogue(args);
  a.expert = global(p.choices.expert.data());
  a.active_expert_rows = global(p.choices.rows.data());
  a.active_expert_begin = global(p.choices.begin.data());
  a.token = p.c.gather ? global(p.choices.token.data()) : nullptr;
  a.rows = p.rows();
  a.strips = p.c.strips, a.gather_rows = p.c.gather;
  mkd_stream(w, global(p.packed.data()));
  const auto task = [&](u32 block, u32 active) { bodies_of(m.type).expert(w, &a, block, active); };
  const u32 active_experts = p.choices.active(), blocks = (a.product.strips + a.strips - 1) / a.strips;
  if (options.after_another) {
    const std::vector<float> others = random_floats(p.x.f32s.size(), 9, 5);
    const auto x = a.product.x;
    a.product.x = global(others.data());
    mkb_expert_rows(w, &a, active_experts);
    task(0, 0);
    a.product.x = x;
  }
  mkb_expert_rows(w, &a, active_experts);
  for (u32 outer = 0; outer < (options.by_expert ? active_experts : blocks); ++outer)
    for (u32 inner = 0; inner < (options.by_expert ? blocks : active_experts); ++inner)
      options.by_expert ? task(inner, outer) : task(outer, inner);
  return {out.values.begin(), out.values.begin() + static_cast<ptrdiff_t>(out.size)};
}

// Returns what a gate (Shazeer 2020; gpt-oss 2025) makes of a pair. Its slope is at most 1.2.
Value gated(Activation gate, Value g, Value up) {
  double factor = up.value;
  if (gate == Activation::kSwigluOai)
    g.value = std::min(g.value, 7.0), factor = std::clamp(up.value, -7.0, 7.0) + 1;
  const double gain = gate == Activation::kSwigluOai ? 1.702 : 1,
               v = g.value / (1 + std::exp(-gain * g.value));
  return {v * factor, 1.2 * g.magnitude * std::abs(factor) + std::abs(v) * up.magnitude};
}

void check(const Problem& p) {
  CAPTURE(p.experts[0].shape.format.name);
  CAPTURE(p.c.tokens);
  CAPTURE(p.c.rows);
  CAPTURE(p.c.gather);
  CAPTURE(static_cast<int>(p.c.input));
  const std::vector<float> out = run(p);
  for (u32 active = 0; active < p.choices.active(); ++active) {
    const u32 begin = p.choices.begin[active];
    const size_t of_expert = size_t{p.choices.expert[active]} * p.out_cols();
    const auto bias = [&](const std::vector<float>& of, u32 i) {
      return p.c.biased ? double{of[of_expert + i]} : 0;
    };
    std::vector<u32> x_rows(p.choices.rows[active]);
    for (u32 i = 0; i < x_rows.size(); ++i) x_rows[i] = p.c.gather ? p.choices.token[begin + i] : begin + i;
    const double error =
        worst_error(p.experts[p.choices.expert[active]], p.x, x_rows, &out[size_t{begin} * p.out_cols()],
                    [&](u32, const std::vector<Value>& row) {
                      std::vector<Value> want(p.out_cols());
                      for (u32 i = 0; i < want.size(); ++i)
                        want[i] = p.c.gate == Activation::kNone
                                      ? row[i] + bias(p.bias, i)
                                      : gated(p.c.gate, row[i / 8 * 16 + i % 8] + bias(p.bias, i),
                                              row[i / 8 * 16 + 8 + i % 8] + bias(p.up_bias, i));
                      return want;
                    });
    CHECK(error < 1);
  }
  const std::vector<float> halves = run(p, {.bf16 = true});
  CHECK(rounds_to(out.data(), reinterpret_cast<const uint16_t*>(halves.data()), out.size()));
}

TEST_CASE("each row is multiplied with its expert's weights, gathered or not") {
  for (const FormatBodies& format : kFormats)
    for (const Input input : kInputs)
      for (const bool gather : {true, false})
        for (const u32 tokens : {1u, 2u, 9u, 40u}) {
          check(Problem({input, tokens, 2, 40, 130, Activation::kNone, gather}, format.type, 3));
          check(Problem({input, tokens, 4, 48, 300, Activation::kSilu, gather}, format.type, 0));
          check(Problem({input, tokens, 1, 5, 64, Activation::kNone, gather}, format.type, 4));
        }
}

TEST_CASE("an expert's biases are added before the gate, whose limits many rows reach") {
  for (const FormatBodies& format : kFormats)
    for (const Input input : kInputs)
      for (const bool gather : {true, false})
        for (const u32 tokens : {1u, 9u, 40u}) {
          check(
              Problem({input, tokens, 2, 48, 130, Activation::kSwigluOai, gather, 1, true}, format.type, 3));
          check(Problem({input, tokens, 2, 48, 130, Activation::kSwigluOai, gather}, format.type, 4));
          check(Problem({input, tokens, 2, 48, 130, Activation::kSilu, gather, 2, true}, format.type, 0));
          check(Problem({input, tokens, 1, 37, 64, Activation::kNone, gather, 3, true}, format.type, 4));
        }
}

TEST_CASE("bits do not depend on the strips of a task") {
  for (const FormatBodies& format : kFormats)
    for (const Activation gate : {Activation::kNone, Activation::kSilu, Activation::kSwigluOai}) {
      Problem p({Input::kScaled, 30, 2, 112, 200, gate, true, 1, gate != Activation::kSilu}, format.type, 1);
      const std::vector<float> alone = run(p);
      for (const u32 strips : {2u, 3u, 4u, 7u, 100u}) {
        p.c.strips = strips;
        CHECK(run(p) == alone);
      }
    }
}

TEST_CASE("bits do not depend on whether an expert's tasks follow each other") {
  for (const FormatBodies& format : kFormats)
    for (const bool gather : {true, false})
      for (const u32 tokens : {1u, 2u, 30u}) {
        const Problem p({Input::kScaled, tokens, 2, 112, 200, Activation::kSilu, gather}, format.type, 1);
        CHECK(run(p, {.by_expert = true}) == run(p));
      }
}

TEST_CASE("a segment prepares the rows of its first expert anew") {
  for (const FormatBodies& format : kFormats) {
    const Problem p({Input::kF32, 6, 2, 40, 130}, format.type, 3);
    CHECK(run(p, {.by_expert = true, .after_another = true}) == run(p));
  }
}

TEST_CASE("a worker that has given up a wait runs no expert, because experts may have any number") {
  for (const FormatBodies& format : kFormats) {
    Problem p({Input::kF32, 6, 2, 40, 130}, format.type, 3);
    for (std::vector<u32>* list : {&p.choices.expert, &p.choices.rows, &p.choices.begin, &p.choices.token})
      std::fill(list->begin(), list->end(), 0xffffff00u);
    for (const float v : run(p, {.gives_up = true})) CHECK(std::isnan(v));
  }
}

}  // namespace
}  // namespace mk
