// The three levels are printed in the text form (.mkir), which docs/ir.md defines.
#pragma once

#include <string>

#include "ir/schedule.h"

namespace mkc {

// Prints one object per line, and a worker's stream in lines of at most about 110 columns. Equal values print
// the same text, and parse_mkir reads the text back to an equal value. Requires that an expression has an
// operand for each operator. Anything else may be wrong. An id beyond its table prints as its number (%#7).
// An id whose object has the name of an earlier object prints as its number too.
std::string print(const OpGraph& graph);
std::string print(const TaskProgram& program);
std::string print(const Schedule& schedule);

}  // namespace mkc
