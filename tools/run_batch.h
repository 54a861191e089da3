// mkc run --batch-file.
#pragma once

#include "runtime/session.h"
#include "tools/batch_file.h"

namespace mkc {

struct BatchRun {
  std::vector<mkrt::Result<BatchLine>> lines;
  BatchOptions options;
  std::vector<int32_t> stop_ids;
  std::string device;  // its name, to tell what the run took; empty: nothing is told
};

// Runs the requests and prints their answers. Errors: a fault of the
// device, after the answers; standard output that is closed. An answer may be an error without that being
// one of the run.
mkrt::Status run_batch(const BatchRun& batch, mkrt::Session& session);

}  // namespace mkc
