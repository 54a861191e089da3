// The loops of products and attention have rates, measured on all threads at once.
#pragma once

#include "codegen/processor_loops.h"
#include "tools/doctor/processor_bench.h"

namespace mkc {

// Return multiply-adds per ns of a thread, by one token or query row, by a group, or by many tokens. Weights,
// keys and values lie in the core's cache.
Spread cached_product(ProcessorBench& bench, const ProcessorLoops& loops, mkrt::WeightType type,
                      ProcessorLoops::Tokens tokens);
Spread cached_attention(ProcessorBench& bench, const ProcessorLoops& loops, mkrt::WeightType type,
                        bool group);

// Return the same rates with operands in memory. Weights follow each other. Keys and values are those of a
// cache of 8 heads, whose pages come in no order.
Spread streamed_product(ProcessorBench& bench, const ProcessorLoops& loops, mkrt::WeightType type,
                        ProcessorLoops::Tokens tokens);
Spread streamed_attention(ProcessorBench& bench, const ProcessorLoops& loops, mkrt::WeightType type,
                          bool group);

}  // namespace mkc
