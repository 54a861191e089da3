// Print and parse spell names, strings, numbers and keywords of the text form alike. This header is internal
// to ir.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ir/schedule.h"

namespace mkc {

constexpr uint32_t kTextVersion = 1;

constexpr std::array kTensorKinds = {TensorKind::kInput, TensorKind::kWeight, TensorKind::kActivation,
                                     TensorKind::kCache, TensorKind::kOutput, TensorKind::kTable};
const char* keyword(TensorKind kind);  // "input", "weight", …
inline const char* keyword(DType type) {
  return dtype_name(type);
}
inline const char* keyword(PlacementKind kind) {
  return placement_name(kind);
}
inline const char* keyword(BodyKind kind) {
  return body_name(kind);
}

// A plain name is a letter or '_', then letters, digits, '_' and '.'.
bool starts_name(char c);
bool continues_name(char c);

// Returns the name itself, quoted where it is no plain name or is an operator of expressions.
std::string spell_name(std::string_view name);
// Tells whether UTF-8 text has control characters: those of ASCII, or U+0080 to U+009F.
bool has_control(std::string_view text);
// Returns the text in double quotes, with '"', '\', control characters and bytes that are no UTF-8 escaped.
std::string spell_string(std::string_view text);
// Returns text that reads back to the same double and never as an integer.
std::string spell_double(double value);

}  // namespace mkc
