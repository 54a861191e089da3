// The rotary table of a model: frequencies and scale by the parameters of its config.json.
#pragma once

#include "frontend/family.h"

namespace mkc {

struct RopeValues {
  std::vector<double> inv_freq;  // [dim / 2]
  double scale = 1;              // of cosines and sines
};

// In double precision, for the types default, linear, dynamic, llama3 (the formulas of the Llama 3.1 release)
// and yarn (Peng et al. 2023, with the defaults of transformers). dynamic changes nothing up to the positions
// that the model was made for. Errors: another type, a key that the type does not have, missing factors or
// such that are not positive, odd dim.
Result<RopeValues> rope_values(const RopeDecl& rope, const Scope& scope);

// The positions that yarn stretches the model to; 0 for other types. Errors: those of rope_values.
Result<int64_t> stretched_context(const RopeDecl& rope, const Scope& scope);

}  // namespace mkc
