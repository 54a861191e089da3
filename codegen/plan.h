// The plan: what the kernel reads to know its work, as laid out in runtime/abi/abi.h.
#pragma once

#include <cstddef>
#include <vector>

#include "codegen/kinds.h"
#include "codegen/mode.h"
#include "runtime/abi/abi.h"

namespace mkc {

// Header, grid records, stream bounds and segments as one blob, 16-byte aligned parts.
// Requires a proved schedule whose grids keep within kMaxWaits and kMaxNotifies.
std::vector<std::byte> make_plan(const Schedule& schedule, const Kinds& kinds, Mode mode = Mode::kMegakernel);

// The record of a grid that multiplies.
mkrt::MkProduct product_record(const Schedule& schedule, const TaskGrid& grid);

}  // namespace mkc
