// The certificate of an artefact states the proof of its schedule.
#pragma once

#include "runtime/artefact/manifest.h"
#include "tools/passes.h"

namespace mkc {

// Returns the certificate of a compilation. Requires that all passes have run.
mkrt::Certificate certify(const Compilation& compilation);

}  // namespace mkc
