// A model's rotary table has the frequencies and the scale that its config.json asks for.
#pragma once

#include "frontend/family.h"

namespace mkc {

struct RopeValues {
  std::vector<double> inv_freq;  // [dim / 2], radians per position
  double scale = 1;              // factor of cosines and sines
};

// Returns frequencies and scale, computed in double precision. Errors: an unknown type, a key that the type
// does not have, missing factors, factors that are not positive, odd dim.
//
// Type names are default, linear, dynamic, llama3 and yarn. Formulas of llama3 are those of the Llama 3.1
// release. Formulas of yarn are those of Peng et al. 2023, with the defaults of transformers. Type dynamic
// changes nothing up to the positions that the model was made for.
Result<RopeValues> rope_values(const RopeDecl& rope, const Scope& scope);

// Returns the number of positions that yarn stretches the model to; 0 for other types. Errors: those of
// rope_values() about the parameters.
Result<int64_t> stretched_context(const RopeDecl& rope, const Scope& scope);

}  // namespace mkc
