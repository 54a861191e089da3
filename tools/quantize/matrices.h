// Some matrices of a checkpoint are quantized, and others are left as they are.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/ops.h"
#include "tools/quantize/format.h"

namespace mkc::quantize {

struct Matrices {
  const Format* format = nullptr;     // of all quantized matrices
  std::set<std::string> quantized;    // the checkpoint's names of matrices
  std::vector<std::string> left_out;  // modules with a matrix of a product that stays as it is, sorted
};

// Chooses the matrices that products alone read. These stay as they are: the head, whose product gives the
// logits; routers, whose product chooses experts; and modules that a pattern of `keep` names.
//
// A pattern is a name of a module, of its end, or of what it lies in; `*` is any text, and "re:…" a regular
// expression. Stacked experts (rows.h) that no pattern names get the form of gpt-oss, where `format` has it.
// All other matrices then stay as they are, because that form has no others.
//
// Errors: a pattern that is no regular expression, or that names no matrix of a product.
Result<Matrices> choose_matrices(const OpGraph& graph, const std::vector<std::string>& keep,
                                 const Format& format);

}  // namespace mkc::quantize
