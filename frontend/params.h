// A family's parameters bound to the values of one config.json, and everything it demands of that file
// checked.
#pragma once

#include "frontend/family.h"

namespace mkc {

// Evaluates the parameters in order. Errors, located in the config file where the value comes from there: a
// key outside `only`, one that unread_keys.h refuses, missing keys, wrong types, values out of range.
// The scope refers to `family` and `config`.
Result<Scope> bind_params(const Family& family, const Document& config);

// Evaluates parameters in order into the scope, which is that of bind_params. Errors: likewise.
Status bind(const std::vector<ParamDecl>& params, Scope& scope);

// Checks the `require` list; `scope` also holds `context` and `max_tokens`.
Status check_requirements(const Family& family, const Scope& scope);

// One of them. Errors: likewise.
Result<Node> bind_param(const ParamDecl& param, const Scope& scope);

// An error about a value: in the config file where it was read from there, else where the family asks for it.
Error value_error(const Scope& scope, const Node& value, Place asked_at, const std::string& name,
                  const std::string& message);

}  // namespace mkc
