#include "runtime/text/jinja/dict.h"

#include <bit>
#include <cmath>
#include <optional>

#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/fault.h"

namespace mkrt::jinja {
namespace {

uint64_t hash_text(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

// Returns equal hashes for equal numbers of any type.
uint64_t hash_number(const Value& value) {
  if (value.is_integer()) return std::hash<int64_t>()(value.as_integer());
  const double real = value.as_real();
  if (real == std::floor(real) && std::abs(real) < 0x1p63)
    return std::hash<int64_t>()(static_cast<int64_t>(real));
  return std::bit_cast<uint64_t>(real);
}

// Returns nothing for a value that is no key, or holds one.
std::optional<uint64_t> find_hash(Arena& arena, const Value& value) {
  const Level level(arena);
  if (value.is_text()) {
    arena.read(value.text().bytes.size());
    return hash_text(value.text().bytes);
  }
  if (value.is_number()) return hash_number(value);
  if (value.is(ValueKind::kTuple)) {
    uint64_t sum = 1;
    for (const Value& item : value.sequence().items) {
      const std::optional<uint64_t> code = find_hash(arena, item);
      if (!code) return std::nullopt;
      sum = sum * 1000003 + *code;
    }
    return sum;
  }
  if (value.is(ValueKind::kList) || value.is(ValueKind::kDict) || value.is(ValueKind::kDictView))
    return std::nullopt;
  if (value.is(ValueKind::kRange)) return static_cast<uint64_t>(value.range().length());
  if (value.is_undefined() || value.is_none()) return static_cast<uint64_t>(value.kind());
  return std::bit_cast<uint64_t>(value.object());
}

uint64_t hash(Arena& arena, const Value& value) {
  const std::optional<uint64_t> code = find_hash(arena, value);
  if (!code) fail("found {} as a key, expected a value that never changes", value.described());
  return *code;
}

}  // namespace

bool is_hashable(Arena& arena, const Value& value) {
  return find_hash(arena, value).has_value();
}

const Value* find(Arena& arena, const Dict& dict, const Value& key) {
  const auto [begin, end] = dict.positions.equal_range(hash(arena, key));
  for (auto at = begin; at != end; ++at) {
    arena.step();
    const auto& [found, value] = dict.items[at->second];
    if (equals(arena, found, key)) return &value;
  }
  return nullptr;
}

const Value* find(Arena& arena, const Dict& dict, std::string_view key) {
  const auto [begin, end] = dict.positions.equal_range(hash_text(key));
  for (auto at = begin; at != end; ++at) {
    arena.step();
    const auto& [found, value] = dict.items[at->second];
    if (found.is_text() && found.text().bytes == key) return &value;
  }
  return nullptr;
}

void put(Arena& arena, Dict& dict, Value key, Value value) {
  const uint64_t code = hash(arena, key);
  const auto [begin, end] = dict.positions.equal_range(code);
  for (auto at = begin; at != end; ++at) {
    arena.step();
    auto& [found, old] = dict.items[at->second];
    if (!equals(arena, found, key)) continue;
    old = value;
    return;
  }
  arena.charge(2 * sizeof(Value) + 64);
  dict.positions.emplace(code, dict.items.size());
  dict.items.emplace_back(key, value);
}

}  // namespace mkrt::jinja
