// check_model() compares a model of random weights with float64.
#pragma once

#include <utility>
#include <vector>

#include "tests/e2e/pipeline.h"
#include "tests/reference/model.h"

namespace mkc::test {

// Prompts are given by length and by number of tokens to generate.
using Prompts = std::vector<std::pair<size_t, uint32_t>>;

// Compares the model's logits and choices with float64 on random prompts. `pull` is that of
// reference::random_model().
void check_model(const reference::Shape& shape, const Prompts& prompts, const std::vector<double>& pull = {},
                 const Build& build = {});

// Returns sizes that fill no tile: 3 heads, 1 key/value head, head_dim 40, hidden size 100, ffn 84,
// vocabulary 1009.
reference::Shape awkward(const char* family, reference::Type type);

// Returns awkward sizes with experts: widths 84 and 44, and 5 or 6 experts.
reference::Shape with_experts(const char* family, reference::Type type);

// Returns awkward sizes of gpt-oss: a window that most tokens look beyond, and heads of 40 columns.
reference::Shape gpt_oss(reference::Type type);

}  // namespace mkc::test
