// Keys of config.json that change the computation in some model and that a family does not read.
#pragma once

#include "frontend/family.h"

namespace mkc {

// Error: one of the keys has a value that would change the computation, and the family's file mentions it
// nowhere. It is at the key's place.
Status check_unread_keys(const Family& family, const Document& config);

}  // namespace mkc
