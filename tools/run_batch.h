// The command mkc run --batch-file answers the requests of a file.
#pragma once

#include "runtime/session/session.h"
#include "tools/batch_file.h"

namespace mkc {

struct BatchRun {
  BatchSource source;
  BatchOptions options;
  std::vector<int32_t> stop_ids;
  mkrt::Preemption preemption = mkrt::Preemption::kNone;
  bool prefix_cache = true;
  uint32_t max_rows_beside_decodes = 0;
  uint32_t steps_per_launch = 1;
  std::string device;  // name of the device, for a line of statistics; empty: no such line
};

// Returns the pages of `page_size` positions that the requests need at full context. Requests beyond the
// limit of one step need none, because they wait.
uint32_t pages_of_batch(const mkrt::Manifest& manifest, uint32_t page_size, uint64_t requests);

// Runs the requests and prints each answer when it is known. Errors: those of answer_batch; standard output
// that is closed. An answer that is an error is no error of the run.
mkrt::Status run_batch(BatchRun& batch, mkrt::Session& session);

}  // namespace mkc
