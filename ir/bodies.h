// What every op and every task body is made of: the operands' roles, kinds, dtypes and shapes, attributes and
// coordinates. One table for the verifier and for docs/ir.md.
#pragma once

#include <string>
#include <vector>

#include "ir/tasks.h"

namespace mkc {

bool fits(OperandKind kind, const Tensor& tensor);
const char* operand_text(OperandKind kind);  // "f32 activation or output", …

struct RoleSchema {
  const char* name;  // a trailing '?' marks an optional role
  OperandSchema operand;
};

struct CoordSchema {
  const char* name;
  const char* dims;  // the letter of its extent, or "" where it is free
};

struct BodySchema {
  std::vector<CoordSchema> coords;
  std::vector<RoleSchema> reads, writes;
  std::vector<const char*> int_attrs, float_attrs;  // a trailing '?' marks optional ones
};
const BodySchema& body_schema(BodyKind kind);

// Whether workers look up in this operand which tasks they have, what these stream or which rows they take:
// at any time after the grid's lookup, tasks or not.
bool looks_up(BodyKind kind, std::string_view role);

// Query rows of attention that go through a kv_tile together: those of as many tokens as have no more in the
// group of a key/value head, and of one token at least.
constexpr int64_t kBlockRows = 16;

// The first kv_tile of a request's context that its last `rows` rows look at, of which each sees its own
// position and the window - 1 before it; window 0: all.
Expr first_kv_tile(const Expr& rows, const Expr& kv_len, int64_t window, int64_t kv_tile);

// The size of a letter, where it is known from the attributes alone.
struct NamedDim {
  char letter;
  int64_t size;
};
std::vector<NamedDim> dims_of(const Attrs& attrs);

}  // namespace mkc
