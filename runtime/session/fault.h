// What a fault inside the kernel says.
#pragma once

#include <string>

#include "runtime/abi/abi.h"
#include "runtime/artefact/manifest.h"

namespace mkrt {

// The error that a fault stands for: it names worker, task, event, seen and expected counts. `timeout_ns`: of
// the step. No error where there was none.
Status check_fault(const MkFault& fault, const Manifest& manifest, const std::string& device,
                   uint64_t timeout_ns);

}  // namespace mkrt
