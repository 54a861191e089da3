// Declaration of the driver interface's functions.
#pragma once

#include "tests/softgpu/driver.h"

#define SOFTGPU_API extern "C" __attribute__((visibility("default"))) int
