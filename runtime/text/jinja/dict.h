// Dicts are searched and added to by these functions.
#pragma once

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Sets a key of a dict that is still being made. Keys that are equal, such as 1 and true, are one key.
// Faults: the key is a list, a dict, or anything else without a hash.
void put(Arena& arena, Dict& dict, Value key, Value value);

// Returns the value of a key, or null. Faults as put().
const Value* find(Arena& arena, const Dict& dict, const Value& key);

// Returns the value of a text key, or null.
const Value* find(Arena& arena, const Dict& dict, std::string_view key);

// Returns whether the value can be a key. Faults: tuples that are nested too deeply, or have too many
// elements.
bool is_hashable(Arena& arena, const Value& value);

}  // namespace mkrt::jinja
