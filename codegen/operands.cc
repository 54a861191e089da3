#include "codegen/operands.h"

#include "ir/bodies.h"
#include "runtime/abi.h"

namespace mkc {

const Tensor& operand_tensor(const TaskProgram& program, const TaskGrid& grid, std::string_view role,
                             bool written) {
  const Access* operand = find_operand(grid, role, written);
  MKC_ASSERT(operand, "grid " + grid.name + " has no operand " + std::string(role));
  return program.tensors[operand->tensor];
}

size_t operand_place(BodyKind body, std::string_view role, bool written) {
  const BodySchema& schema = body_schema(body);
  size_t place = written ? schema.reads.size() : 0;
  for (const RoleSchema& known : written ? schema.writes : schema.reads) {
    if (role_name(known.name) == role) {
      MKC_ASSERT(place < mkrt::kMaxOperands, "too many operands");
      return place;
    }
    ++place;
  }
  MKC_BUG("a body has no role " + std::string(role));
}

}  // namespace mkc
