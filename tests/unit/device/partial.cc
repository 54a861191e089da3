// These tests compare split products with unsplit ones, bit for bit.
#include <cmath>

#include "tests/unit/device/product.h"

namespace mk {
namespace {

// Runs the product of `a` split in `parts` along K, then the reduction of each strip. Segments have `max`
// tasks. Blocks of strips end with their segment and with their part.
void run_split(const Case& c, Problem& p, AllArgs a, u32 parts, bool bulk = true, u32 max = ~0u) {
  std::vector<float> sums(size_t{a.strips} * kKSlices * a.tokens * kStripRows, NAN);
  a.sums = global(sums.data());
  a.streamed_split_k = a.split_k = parts;
  a.splits = 1;
  AllArgs partial = a;
  partial.sumsq_partials = 0;  // split_k_reduce applies the sums of squares, partials do not
  const u32 tasks = a.strips * parts;
  Sides s;
  s.load = [&](Worker& w) {
    const auto stream = bulk ? mkd_stream_bulk : mkd_stream_async;
    for (u32 task = 0; task < tasks; task += min(max, tasks))
      stream(&w, global(p.packed.data()), &partial, type_of(c), task, min(max, tasks - task));
  };
  s.consume = [&](Worker& w) {
    const ProductArgs mine = with_epilogue(w, partial), finish = with_epilogue(w, a, 1);
    if (a.normed) mkb_product_norm(&w, &mine);
    for (u32 task = 0, count; task < tasks; task += count) {
      const u32 of_part = a.strips - task % a.strips, of_segment = min(max, tasks) - task % min(max, tasks);
      count = min(min(block_strips(a.tokens, type_of(c), a.mma64_strips), of_part), of_segment);
      product_of(c)(&w, &mine, task, count);
      mkd_barrier();
    }
    for (u32 strip = 0, count; strip < a.strips; strip += count) {
      count = min(3, a.strips - strip);
      mkb_split_k_reduce(&w, &finish, strip, count);
      mkd_barrier();
    }
  };
  launch(s);
}

// The cases have full and narrow tiles, and rows and columns that end within a strip or a tile.
const Case kSplitCases[] = {{16, 512, 1, true}, {150, 1100, 3, true}, {40, 120, 8, true},
                            {33, 700, 9, true}, {150, 600, 33, true}, {100, 1024, 64, true},
                            {20, 130, 80, true}};

TEST_CASE("a product in parts with bias and residual has the bits of the whole one") {
  for (const auto& [bf16, coded] : matrix_weights())
    for (Case c : kSplitCases)
      for (const u32 fp8_from : {0u, 33u}) {
        c.coded = coded;
        CAPTURE(static_cast<int>(coded));
        CAPTURE(c.rows);
        CAPTURE(c.cols);
        CAPTURE(c.tokens);
        Problem p = make_problem(c);
        std::vector<float> whole(size_t{c.tokens} * c.rows, NAN), split(whole.size(), NAN);
        AllArgs a = make_args(c, p, whole);
        a.fp8_from = fp8_from;
        a.bias = global(p.bias.data());
        a.residual = global(p.residual.data());
        run(c, p, a);
        a.out = global(split.data());
        for (const u32 parts : {2u, 4u, 8u}) {
          if ((parts == 2) != (fp8_from == 0)) continue;
          CAPTURE(parts);
          run_split(c, p, a, parts);
          CHECK(split == whole);
        }
      }
}

TEST_CASE("a product in parts agrees with float64, and its norm is computed before it") {
  for (const Case& c : kSplitCases) {
    Problem p = make_problem(c);
    std::vector<float> out(size_t{c.tokens} * c.rows, NAN);
    AllArgs a = make_args(c, p, out);
    a.norm = global(p.norm.data());
    a.normed = 1;
    run_split(c, p, a, 2);
    for (uint32_t t = 0; t < c.tokens; ++t) {
      const std::vector<double> in = product_input(c, p, true, t);
      std::vector<double> want(c.rows);
      for (uint32_t r = 0; r < c.rows; ++r) want[r] = dot(c, p, in, r);
      CHECK(row_error(&out[t * c.rows], want.data(), c.rows) < 5e-4);
    }
  }
}

TEST_CASE("what finishes a product scales rows that came rounded and leaves what the next norm takes") {
  for (const Case& c : kSplitCases)
    for (const u32 parts : {2u, 4u}) {
      CAPTURE(c.rows);
      CAPTURE(c.cols);
      CAPTURE(c.tokens);
      CAPTURE(parts);
      Problem p = make_problem(c);
      Rounded in = round_input(c, p, 5);
      const auto whole = [&](const AllArgs& a) { run(c, p, a); };
      const auto split = [&](const AllArgs& a) { run_split(c, p, a, parts); };
      CHECK(leave(c, p, in, split) == leave(c, p, in, whole));
    }
}

TEST_CASE("gate times up is finished from the parts of both") {
  for (const uint32_t tokens : {1u, 5u, 20u}) {
    const Case c{48, 200, tokens, true};
    Problem p = make_problem(c);
    std::vector<uint16_t> whole(size_t{tokens} * c.rows / 2), split(whole.size());
    std::vector<float> none;
    AllArgs a = make_args(c, p, none);
    a.gate = Activation::kSilu, a.out_bf16 = 1;
    a.out_cols = c.rows / 2;
    a.out = global(reinterpret_cast<float*>(whole.data()));
    run(c, p, a);
    a.out = global(reinterpret_cast<float*>(split.data()));
    run_split(c, p, a, 2);
    CHECK(split == whole);
  }
}

TEST_CASE("bits of a product in parts do not depend on the blocks its strips are in, nor on who loads them") {
  for (const uint32_t tokens : {1u, 8u, 16u, 33u}) {
    const Case c{150, 700, tokens, true};
    Problem p = make_problem(c);
    std::vector<float> alone(size_t{c.tokens} * c.rows, NAN), blocks(alone.size(), NAN);
    run_split(c, p, make_args(c, p, alone), 2, true, 1);
    for (const bool bulk : {true, false})
      for (const u32 max : {3u, 7u, ~0u}) {
        run_split(c, p, make_args(c, p, blocks), 2, bulk, max);
        CHECK(blocks == alone);
      }
  }
}

}  // namespace
}  // namespace mk
