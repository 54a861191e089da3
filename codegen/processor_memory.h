// A worker of the processor has memory in place of a GPU's shared memory.
#pragma once

#include "ir/schedule.h"

namespace mkc {

// Returns the bytes of MkThread::shared: what a worker keeps, and the rows of its largest product.
uint32_t processor_bytes(const Schedule& schedule);

}  // namespace mkc
