// The memory of a worker of the processor.
#pragma once

#include "ir/schedule.h"

namespace mkc {

// Returns the bytes of MkThread::shared: what a worker keeps, and the rows of its largest product.
uint32_t processor_bytes(const Schedule& schedule);

}  // namespace mkc
