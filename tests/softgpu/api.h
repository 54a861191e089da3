// The driver interface's functions are declared here.
#pragma once

#include "tests/softgpu/driver.h"

#define SOFTGPU_API extern "C" __attribute__((visibility("default"))) int
