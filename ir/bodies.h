// Schemas say what ops and task bodies have: roles, kinds, dtypes and shapes of operands, attributes and
// coordinates. The verifier and docs/ir.md share this one table.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

// Tells whether the tensor is of this kind.
bool fits(OperandKind kind, const Tensor& tensor);
const char* operand_text(OperandKind kind);  // "f32 activation or output", …

struct CoordSchema {
  const char* name;
  const char* dims;  // the letter of its extent, or "" where it is free
};

struct BodySchema {
  std::vector<CoordSchema> coords;
  std::vector<RoleSchema> reads, writes;
  std::vector<const char*> int_attrs, float_attrs;  // a trailing '?' marks optional ones
};
// Returns the coordinates, operands and attributes of a body.
const BodySchema& body_schema(BodyKind kind);

// Tells whether workers look up in this operand which tasks they have, what these stream or which rows they
// take. Workers may read it at any time after the grid's lookup, even where they have no task.
bool looks_up(BodyKind kind, std::string_view role);

// Bodies have room for as many tokens and requests of a step, experts, and choices of a token.
constexpr int64_t kMaxStepTokens = 256, kMaxStepRequests = 64, kMaxExperts = 512, kMaxTopK = 16;

// Attention multiplies a KV tile with this many query rows at once. A row block takes as many tokens as have
// no more query rows in the group of a key/value head, and at least one token.
constexpr int64_t kQueryTileRows = 16;
// Attention takes heads of at most this many columns.
constexpr int64_t kMaxHeadDim = 256;
// Returns what is wrong with the number of columns of attention's heads, or "". Both halves have as many.
std::string head_dim_fault(int64_t head_dim);

// Returns the columns that the norm of a row grid takes together, or 0 where it has none. They are the whole
// row or a head.
int64_t norm_columns(const TaskProgram& program, const TaskGrid& row);
// Returns the columns of a task of a row grid: the whole row where the norm is the row's, else whole heads.
int64_t row_columns(const TaskProgram& program, const TaskGrid& row);

// Products by warpgroups bring this many codes of a row at once.
constexpr int64_t kCodesAtOnce = 16;
// Returns how many of `rows` rows a quantize grid rounds to codes: all where there are at least `from`, else
// none.
Expr coded_rows(const TaskProgram& program, const Expr& rows, int64_t from);

// NamedDim is the size of a letter that the attributes alone determine.
struct NamedDim {
  char letter;
  int64_t size;
};
// Returns the sizes of all letters that the attributes determine.
std::vector<NamedDim> dims_of(const Attrs& attrs);

}  // namespace mkc
