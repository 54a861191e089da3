// The driver interface's functions are declared here.
#pragma once

#include "tests/softgpu/driver.h"

namespace softgpu {

// Returns the error of a call before cuInit, or 0.
int uninitialised();
// Returns the error of a call that needs a context, where the calling thread has none, or 0.
int unusable();

}  // namespace softgpu

#define SOFTGPU_API extern "C" __attribute__((visibility("default"))) int
