// The manual page of a program is made from its table of options.
#pragma once

#include "tools/manual/option_table.h"

namespace mkc {

// Returns the page as roff of the man macros, in UTF-8, section 1. `see_also` names another page: "mkrun(1)".
std::string man_page(const OptionTable& table, const std::string& version, const std::string& see_also);

}  // namespace mkc
