// A kernel's fault is translated into an error.
#pragma once

#include <string>

#include "runtime/abi/abi.h"
#include "runtime/artefact/manifest.h"

namespace mkrt {

// Returns the fault as an error that names worker, task, event, seen and expected counts. `timeout_ns` is the
// step's timeout. Returns success where there was no fault.
Status check_fault(const MkFault& fault, const Manifest& manifest, const std::string& device,
                   uint64_t timeout_ns);

}  // namespace mkrt
