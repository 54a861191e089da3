// The certificate that an artefact carries: what was proved of its schedule.
#pragma once

#include "runtime/artefact/manifest.h"
#include "tools/passes.h"

namespace mkc {

// Requires that all passes have run.
mkrt::Certificate certify(const Compilation& compilation);

}  // namespace mkc
