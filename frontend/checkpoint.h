// Tensors of a checkpoint are matched with the weights that a family declares.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontend/family.h"
#include "frontend/planned_formats.h"
#include "frontend/quantization.h"
#include "ir/tensor.h"
#include "runtime/artefact/stored_matrix.h"

namespace mkc {

struct CheckpointTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::string file;                    // the file that holds the tensor, for errors
  std::string stored{};                // the type's name in the file, for errors; "": the dtype's name
  std::span<const std::byte> bytes{};  // the content
};

// Tells whether the family ignores the tensors of this name in the model of the scope.
Result<bool> is_ignored(const IgnoreDecl& ignore, const Scope& scope);

// Checkpoint hands out the tensors of one checkpoint by name. It records which of them were taken.
class Checkpoint {
 public:
  // Returns a checkpoint of which no tensor is taken yet. `directory` names the checkpoint in errors. The
  // checkpoint refers to `tensors` and the scope's config. Errors: a name given twice, a dtype in the config
  // that no weight can have.
  //
  // Empty `tensors` mean that the config alone is compiled. Every weight is then taken to exist, in the
  // config's dtype. planned_dtype() says which of them are quantized.
  static Result<Checkpoint> open(std::span<const CheckpointTensor> tensors, const Family& family,
                                 const Scope& scope, const std::string& directory);

  // Checks a tensor, marks it as taken and returns its dtype. Errors: a missing tensor, another shape,
  // another dtype, a dtype that no weight can have.
  //
  // Matrices may be quantized as the config says. Their scales are taken, too. All other weights have one
  // dtype: that of the first one taken.
  //
  // `name` may be that of a view (runtime/artefact/tensor_view.h). The whole tensor is then taken, which must
  // have `stack` experts.
  Result<DType> take(const std::string& name, const std::vector<int64_t>& shape, const Loc& declared_at,
                     int64_t stack);

  // Returns the dtype of a product's matrix where the config alone is compiled and says that the matrix is
  // quantized. Errors: columns that the groups do not divide.
  Result<std::optional<DType>> planned_dtype(const std::string& name, int64_t cols, const Scope& scope) const;

  // Checks the scales of a cache and marks them as taken. Scales may be missing and may have any float type.
  // They are one number, or one for each head. Errors: another type or number of elements.
  Status take_scales(const std::string& name, int64_t heads);

  // Returns the error of a taken tensor whose type is not the expected one.
  Error unexpected(const std::string& name, const std::string& expected) const;

  // Fails for a tensor that was not taken and that the family does not declare as ignored, and for an ignored
  // copy that differs from its tensor. Fails where the config's targets name no quantized matrix.
  Status check_all_used(const Family& family, const Scope& scope) const;

  DType dtype() const { return dtype_; }

 private:
  // Takes the tensors of a quantized matrix and returns its dtype, or nothing where the matrix is plain.
  Result<std::optional<DType>> take_quantized(const std::string& name, const std::vector<int64_t>& shape,
                                              int64_t stack);
  // Holds the tensors of a matrix against what the config asks for.
  Status check_asked(const std::string& name, const mkrt::StoredMatrix& stored,
                     const std::vector<int64_t>& shape);
  // Fails where the config asks for quantized weights and names none of those that are.
  Status check_targets() const;
  // Returns what the config says of a matrix.
  Result<Quantization> quantization_of(const std::string& name) const;
  // Returns the tensor that a name or a view names, or null.
  const CheckpointTensor* find(const std::string& name) const;
  void mark_used(const std::string& name);
  Status check_copy(const IgnoreDecl& copy, const Scope& scope) const;
  // Returns the names that the family ignores for this model. Errors: a copy differs from its tensor.
  Result<std::vector<std::string_view>> check_ignored(const Family& family, const Scope& scope) const;

  std::span<const CheckpointTensor> tensors_;
  std::string directory_;
  std::string default_note_;  // of the config (defaults.h), for errors of tensors that its integers decide
  std::map<std::string, size_t> by_name_;
  std::vector<bool> used_;
  DType dtype_ = DType::bf16;
  std::optional<Quantization> quantized_;  // nothing: the config says nothing of quantized weights
  std::optional<PlannedFormats> planned_;  // what the config says of quantized weights
  bool targeted_ = false;                  // the config names some quantized matrix
  std::string untargeted_;  // codes of a quantized matrix that the config does not name; "": none
  const Document* config_ = nullptr;
  std::string dtype_from_;  // the tensor whose dtype all others must have; "" before the first is taken
};

}  // namespace mkc
