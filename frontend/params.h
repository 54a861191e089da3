// A family's parameters are bound to the values of one config.json, with the checks of that file.
#pragma once

#include "frontend/family.h"

namespace mkc {

// Returns a scope that holds the parameters, evaluated in order. The scope refers to `family` and `config`.
//
// Errors: a value outside `only`, a key that unread_keys.h refuses, missing keys, wrong types, values out of
// range. An error about a config value has its place in the config file.
Result<Scope> bind_params(const Family& family, const Document& config);

// Evaluates parameters in order and adds them to a scope made by bind_params(). Errors: those of
// bind_param().
Status bind(const std::vector<ParamDecl>& params, Scope& scope);

// Checks the `require` list. `scope` also holds `context` and `max_tokens`. Errors: a requirement that fails,
// in its own words and at its key in the config file.
Status check_requirements(const Family& family, const Scope& scope);

// Returns the value of one parameter. Errors: a missing key, a wrong type, a value out of range.
Result<Node> bind_param(const ParamDecl& param, const Scope& scope);

// Returns an error about a value. Its place is in the config file if the value was read there. Otherwise it
// is `asked_at`, where the family file asks for the value.
Error value_error(const Scope& scope, const Node& value, Place asked_at, const std::string& name,
                  const std::string& message);

}  // namespace mkc
