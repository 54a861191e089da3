// How the functions of the driver interface are declared.
#pragma once

#include "tests/softgpu/driver.h"

#define SOFTGPU_API extern "C" __attribute__((visibility("default"))) int
