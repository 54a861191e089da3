// Some keys of config.json change the computation in some models, and a family may leave them unread.
#pragma once

#include "frontend/family.h"

namespace mkc {

// Fails if one of the keys has a value that would change the computation and the family's file does not
// mention the key. The error is at the key's place.
Status check_unread_keys(const Family& family, const Document& config);

}  // namespace mkc
