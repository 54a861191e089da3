// These tests compare the bits of products between different schedules, token counts and neighbours.
#include "tests/unit/device/product.h"

namespace mk {
namespace {

TEST_CASE("a strip's bits do not depend on the block it is in, nor on who loads it") {
  // Each format meets each number of tokens, and both meet full and narrow tiles.
  u32 n = 0;
  for (const auto& [bf16, coded] : all_weights()) {
    ++n;
    for (const uint32_t tokens : {1u, 5u, 8u, 16u, 30u, 32u, 33u, 256u}) {
      const uint32_t cols = ++n % 2 ? 512 : 700;
      const Case c{150, tokens > 64 ? 64 : cols, tokens, bf16, coded};
      CAPTURE(bf16);
      CAPTURE(static_cast<int>(coded));
      CAPTURE(tokens);
      CAPTURE(cols);
      Problem p = make_problem(c);
      std::vector<float> alone(size_t{c.tokens} * c.rows, NAN), blocks(alone.size(), NAN);
      run(c, p, make_args(c, p, alone), 1, true, 1);
      for (const bool bulk : {true, false})
        for (const u32 mma64_strips : {kBlockStrips, kMma64Strips}) {
          if (tokens <= mkrt::kSameStreamTokens && mma64_strips == kMma64Strips) continue;
          AllArgs a = make_args(c, p, blocks);
          a.mma64_strips = mma64_strips;
          run(c, p, a, 1, bulk);
          CHECK(blocks == alone);
        }
    }
  }
}

TEST_CASE("what lies behind the last row of activations is not multiplied") {
  for (const uint32_t tokens : {3u, 12u, 20u, 40u, 80u})
    for (const uint32_t wgmma_from : {0u, 33u}) {
      const Case c{
          40, 640, tokens, true,
          tokens % 3 == 0 ? WeightType::kE4m3 : WeightType::kBf16};  // the last tile has 128 of 512 columns
      CAPTURE(tokens);
      CAPTURE(wgmma_from);
      Problem p = make_problem(c);
      Rounded in = round_input(c, p, 5);
      const auto left = [&](uint16_t behind) {
        in.x.resize(p.x.size());
        in.x.resize(p.x.size() + 512, behind);
        return leave(c, p, in, [&](AllArgs a) {
          a.wgmma_from = wgmma_from;
          run(c, p, a);
        });
      };
      CHECK(left(0x7fc0) == left(0));  // 0x7fc0 is a NaN in bf16
    }
}

TEST_CASE("a token's bits do not depend on how many others a matrix product has") {
  for (const auto& [bf16, coded] : matrix_weights())
    check_bits_of_fewer({40, 700, 150, bf16, coded}, {2u, 8u, 9u, 16u, 17u, 32u, 33u, 64u, 65u}, {~0u},
                        [](AllArgs&) {});
}

TEST_CASE("nor do they of rows that came rounded, nor those of what the next norm takes") {
  Case c{40, 700, 80, true};
  Problem p = make_problem(c);
  Rounded in = round_input(c, p, 5);
  const auto left = [&](uint32_t tokens) {
    c.tokens = tokens;
    return leave(c, p, in, [&](const AllArgs& a) { run(c, p, a); });
  };
  const Left all = left(80);
  for (const uint32_t tokens : {2u, 3u, 8u, 9u, 17u, 33u, 64u}) {
    const Left some = left(tokens);
    CHECK(std::equal(some.out.begin(), some.out.end(), all.out.begin()));
    CHECK(std::equal(some.sum_squares.begin(), some.sum_squares.end(), all.sum_squares.begin()));
    CHECK(std::equal(some.x_bf16.begin(), some.x_bf16.end(), all.x_bf16.begin()));
  }
}

TEST_CASE("a token's bits do not depend on how many others a product by warpgroups has, nor on the block") {
  for (const auto& [bf16, coded] : matrix_weights()) {
    if (!by_warpgroups(weight_format(coded))) continue;
    const Case c{150, 1536, 150, bf16, coded};
    check_bits_of_fewer(c, {33u, 64u, 65u, 128u, 129u}, {~0u, 3u}, [](AllArgs& a) { a.wgmma_from = 33; });
    // Passes of 128 tokens are for kernels whose steps may have more than 64.
    check_bits_of_fewer(c, {33u, 64u}, {~0u, 3u}, [](AllArgs& a) { a.wgmma_from = 33, a.max_tokens = 150; });
  }
}

TEST_CASE("rows that are picked have the bits that they have among all") {
  const std::vector<u32> q_len{3, 1, 40, 1, 1, 9, 2, 20, 1, 5};
  for (const auto& [bf16, coded] : all_weights()) {
    const Case c{40, 700, 83, bf16, coded};
    Problem p = make_problem(c);
    std::vector<float> all(size_t{c.tokens} * c.rows), gathered(q_len.size() * c.rows);
    AllArgs a = make_args(c, p, all);
    a.norm = global(p.norm.data());
    a.normed = 1;
    run(c, p, a);
    a.out = global(gathered.data());
    a.tokens = static_cast<u32>(q_len.size());
    a.gather_rows = 1;
    run(c, p, a, 1, true, ~0u, q_len);
    for (size_t b = 0, row = 0; b < q_len.size(); ++b) {
      row += q_len[b];
      CHECK(std::equal(gathered.data() + b * c.rows, gathered.data() + (b + 1) * c.rows,
                       all.data() + (row - 1) * c.rows));
    }
    // A gather of all rows is the identity.
    std::vector<float> again(all.size());
    a.out = global(again.data());
    a.tokens = c.tokens;
    run(c, p, a, 1, true, ~0u, q_len);
    CHECK(again == all);
  }
}

TEST_CASE("bits do not depend on when copies complete") {
  const Case c{33, 1100, 7, true};
  Problem p = make_problem(c);
  std::vector<float> first(size_t{c.tokens} * c.rows), second(first.size());
  run(c, p, make_args(c, p, first), 1);
  run(c, p, make_args(c, p, second), 99);
  CHECK(first == second);
}

}  // namespace
}  // namespace mk
