// Keys of config.json that change the computation in some models and that a family may leave unread.
#pragma once

#include "frontend/family.h"

namespace mkc {

// Fails if one of the keys has a value that would change the computation and the family's file does not
// mention the key. The error is at the key's place.
Status check_unread_keys(const Family& family, const Document& config);

}  // namespace mkc
