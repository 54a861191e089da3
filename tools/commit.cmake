# Writes OUTPUT, a source with the commit of the folder ROOT, where that has changed.
execute_process(COMMAND git -C ${ROOT} describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[#include "tools/artefact.h"

namespace mkc {

const char* commit() {
  return "@commit@";
}

}  // namespace mkc
]])
