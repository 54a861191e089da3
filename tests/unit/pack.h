// Tests pack weights of any format by one call.
#pragma once

#include "codegen/device/bodies.h"

namespace mk {

// Packs rows by the function of their format.
inline void pack_rows_of(AS1 const MkPack* pack, u32 workers, u32 threads) {
  switch ((WeightType)pack->type) {
#define MK_PACK_TYPE(name, type) \
  case WeightType::type:         \
    return mkd_pack_##name(pack, workers, threads);
    MKRT_EACH_WEIGHT_TYPE(MK_PACK_TYPE)
#undef MK_PACK_TYPE
  }
}

}  // namespace mk
