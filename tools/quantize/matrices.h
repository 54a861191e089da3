// Some matrices of a checkpoint are quantized, and others are left as they are.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/ops.h"
#include "tools/quantize/format.h"

namespace mkc::quantize {

constexpr const char* kHeadWeight = "lm_head.weight";  // transformers' name of a head of its own

struct Matrices {
  const Format* format = nullptr;     // of all quantized matrices
  std::set<std::string> quantized;    // the checkpoint's names of matrices
  std::string tied_head;              // the embedding, where a head of its own is made of it
  std::vector<std::string> left_out;  // modules with a matrix of a product that stays as it is, sorted

  size_t count() const { return quantized.size() + (tied_head.empty() ? 0 : 1); }
};

// Selection says which matrices a user selects.
struct Selection {
  std::vector<std::string> keep;  // patterns of --keep
  bool head = false;              // the head gets the format, too
};

// Chooses the matrices that products alone read. These stay as they are: the head, whose product gives the
// logits, without `head`; routers, whose product chooses experts; and modules that a pattern of `keep` names.
// A head that is the embedding becomes a matrix of its own.
//
// A pattern is a name of a module, of its end, or of what it lies in; `*` is any text, and "re:…" a regular
// expression. Stacked experts (rows.h) that no pattern names get the form of gpt-oss, where `format` has it.
// All other matrices then stay as they are, because that form has no others.
//
// Errors of a pattern: it is no regular expression, or names no matrix of a product. Patterns that name all
// matrices, or some experts of a layer and not the others, are errors, too.
//
// Errors of `head`: there is none; a pattern names it; the form has no other matrices than experts.
Result<Matrices> choose_matrices(const OpGraph& graph, const Selection& selection, const Format& format);

}  // namespace mkc::quantize
