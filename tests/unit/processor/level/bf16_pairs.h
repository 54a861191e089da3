#pragma once

namespace mk {

// kBf16Pairs says whether the bodies under test multiply pairs of bf16. Attention then rounds queries and
// weights to bf16.
extern const bool kBf16Pairs;

}  // namespace mk
