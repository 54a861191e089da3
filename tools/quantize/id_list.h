// Lines of --held-out may be lists of ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/diag.h"

namespace mkc::quantize {

// Returns the ids of a line that is a JSON list, or nothing. Error: an element that is no id below `vocab`. A
// number beyond those of doubles is such an element wherever the parser meets it, because it reads no
// further.
Result<std::optional<std::vector<int32_t>>> read_id_list(const std::string& line, uint64_t vocab,
                                                         const Loc& at);

}  // namespace mkc::quantize
