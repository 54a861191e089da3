// A family's parameters bound to the values of one config.json, and everything it demands of that file
// checked.
#pragma once

#include "frontend/family.h"

namespace mkc {

// Evaluates the parameters in order. Errors, located in the config file where the value comes from there: a
// key outside `only` or `known_keys`, missing keys, wrong types, values out of range.
// The scope refers to `family` and `config`.
Result<Scope> bind_params(const Family& family, const Document& config);

// Evaluates parameters in order into the scope, which is that of bind_params. Errors: likewise.
Status bind(const std::vector<ParamDecl>& params, Scope& scope);

// Checks the `require` list; `scope` also holds `context` and `max_tokens`.
Status check_requirements(const Family& family, const Scope& scope);

// The rotary table's frequencies: [dim / 2], with the scaling of rope types default, linear and llama3 (the
// formulas of the Llama 3.1 release), in double precision.
// Errors: another type, missing or non-positive factors, odd dim.
Result<std::vector<double>> rope_frequencies(const RopeDecl& rope, const Scope& scope);

}  // namespace mkc
