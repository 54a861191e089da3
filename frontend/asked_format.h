// This check holds what the config asks for against the tensors of a quantized matrix.
#pragma once

#include <string>

#include "frontend/planned_formats.h"
#include "runtime/artefact/stored_matrix.h"

namespace mkc {

// QuantizedMatrix is a matrix "MODULE.weight" [rows, cols] with its tensors.
struct QuantizedMatrix {
  const std::string& name;
  const mkrt::StoredMatrix& stored;
  uint64_t rows, cols;
};

// Checks the codes and scales of a matrix. Returns whether the config names the matrix: names of targets may
// be those of another version of transformers. Errors, at the config's key: another kind of codes, other bits
// or scales than those asked for; a module of `ignore`; those of matches().
Result<bool> check_asked_format(const PlannedFormats& asked, const Document& config,
                                const QuantizedMatrix& matrix);

}  // namespace mkc
