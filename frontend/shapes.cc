#include "frontend/shapes.h"

#include <fmt/format.h>

#include <map>

#include "frontend/source.h"
#include "ir/bodies.h"

namespace mkc {
namespace {

// Letters has the sizes of an op's letters (OperandSchema). Operands are checked in turn; each one binds the
// letters that it is the first to have.
class Letters {
 public:
  Letters(const Symbols& symbols, const OpSchema& schema, const std::vector<Tensor>& inputs,
          const Attrs& attrs)
      : symbols_(symbols), schema_(schema) {
    const StepSymbols step = step_symbols(symbols);
    sizes_ = {{'T', symbol(step.tokens)}, {'B', symbol(step.requests)}, {'R', symbol(step.logit_rows)}};
    for (const NamedDim& dim : dims_of(attrs)) sizes_[dim.letter] = dim.size;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (schema.inputs[i].operand.dims == std::string_view("Tk") && inputs[i].shape.size() == 2)
        sizes_['P'] = inputs[i].shape[1] * sizes_['T'];
  }

  // Fails unless an operand has the shape of its letters.
  Status check(const RoleSchema& role, const Tensor& operand) {
    const std::string_view letters = role.operand.dims;
    std::vector<std::optional<Expr>> wanted;
    for (const char letter : letters) wanted.push_back(size_of(letter, operand));
    bool fits = operand.shape.size() == wanted.size();
    for (size_t i = 0; fits && i < wanted.size(); ++i) fits = !wanted[i] || *wanted[i] == operand.shape[i];
    if (!fits)
      return Error{fmt::format("{} of {} is %{} {}, expected {}", role_name(role.name), schema_.name,
                               operand.name, text_of({operand.shape.begin(), operand.shape.end()}),
                               text_of(wanted))};
    for (size_t i = 0; i < letters.size(); ++i) sizes_.emplace(letters[i], operand.shape[i]);
    return {};
  }

  // Fails unless the heads of a cache have as many columns as the keys.
  Status check_heads(std::string_view role, const Tensor& cache) const {
    if (sizes_.at('G') * sizes_.at('h') == sizes_.at('E')) return {};
    return Error{fmt::format("{} of {} is %{} {}, expected heads of {} columns in all", role, schema_.name,
                             cache.name, text_of({cache.shape.begin(), cache.shape.end()}),
                             to_string(sizes_.at('E'), {}))};
  }

  std::vector<Expr> shape(std::string_view letters) const {
    std::vector<Expr> shape;
    for (const char letter : letters) shape.push_back(sizes_.at(letter));
    return shape;
  }

 private:
  // Returns the size that a letter must have in the operand, or nothing where any size fits.
  std::optional<Expr> size_of(char letter, const Tensor& operand) const {
    if (const auto at = sizes_.find(letter); at != sizes_.end()) return at->second;
    const Expr& tokens = sizes_.at('T');
    const bool has_rows = operand.shape.size() == 2;
    if (letter == 'A') return has_rows && operand.shape[0] == sizes_.at('R') ? sizes_.at('R') : tokens;
    if (letter != 'Y' || !sizes_.contains('P')) return {};
    return has_rows && operand.shape[0] == tokens ? tokens : sizes_.at('P');
  }

  std::string text_of(const std::vector<std::optional<Expr>>& shape) const {
    std::vector<std::string> names;
    for (const Symbol& s : symbols_) names.push_back(s.name);
    std::string text;
    for (const std::optional<Expr>& dim : shape)
      text += (text.empty() ? "" : ", ") + (dim ? to_string(*dim, names) : "any");
    return "[" + text + "]";
  }

  const Symbols& symbols_;
  const OpSchema& schema_;
  std::map<char, Expr> sizes_;
};

}  // namespace

Result<std::vector<Typed>> infer_outputs(const Symbols& symbols, OpKind kind,
                                         const std::vector<Tensor>& inputs, const std::vector<Tensor>& caches,
                                         const Attrs& attrs) {
  const OpSchema& schema = op_schema(kind);
  Letters letters(symbols, schema, inputs, attrs);
  for (size_t i = 0; i < inputs.size(); ++i) MKC_TRY_STATUS(letters.check(schema.inputs[i], inputs[i]));
  for (size_t i = 0; i < caches.size(); ++i) {
    MKC_TRY_STATUS(letters.check(schema.outputs[i], caches[i]));
    MKC_TRY_STATUS(letters.check_heads(schema.outputs[i].name, caches[i]));
  }
  std::vector<Typed> outputs;
  for (const RoleSchema& out : schema.outputs)
    if (out.operand.kind != OperandKind::kCache)
      outputs.push_back({out.operand.kind == OperandKind::kIndex ? DType::i32 : DType::f32,
                         letters.shape(out.operand.dims)});
  return outputs;
}

}  // namespace mkc
