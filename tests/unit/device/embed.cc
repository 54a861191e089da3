#include "tests/unit/device/product.h"

namespace mk {
namespace {

TEST_CASE("embedding rows are read from the packed table, and left as the next norm takes them") {
  const Case c{50, 136, 1, true};
  Problem p = make_problem(c);
  std::vector<u32> tokens = {49, 0, 17};
  std::vector<float> out(tokens.size() * c.cols);
  std::vector<uint16_t> x_bf16(out.size());
  std::vector<float> sum_squares(tokens.size());
  const NormOutputs next{global(p.norm.data()), global(reinterpret_cast<char*>(x_bf16.data())),
                         global(sum_squares.data())};
  const EmbedArgs a{global(tokens.data()), global(p.packed.data()), global(out.data()), next, c.rows, c.cols};
  Sides s;
  s.consume = [&](Worker& w) {
    for (u32 t = 0; t < tokens.size(); ++t) {
      mkb_embed_bf16(&w, &a, t);
      mkd_barrier();
    }
  };
  launch(s);
  for (size_t t = 0; t < tokens.size(); ++t) {
    double sum = 0;
    for (uint32_t k = 0; k < c.cols; ++k) {
      const float v = out[t * c.cols + k];
      CHECK(v == p.weight[tokens[t] * c.cols + k]);
      CHECK(x_bf16[t * c.cols + k] == to_bf16(v * p.norm[k]));
      sum += double{v} * v;
    }
    CHECK(sum_squares[t] == doctest::Approx(sum).epsilon(1e-5));
  }
}

}  // namespace
}  // namespace mk
