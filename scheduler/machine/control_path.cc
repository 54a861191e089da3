#include "scheduler/machine/control_path.h"

namespace mkc {

double path_ns(const Machine& m, const CodePath& path) {
  return path.instructions * m.instruction_ns + path.global_loads * m.l2_ns +
         path.shared_loads * m.shared_ns + path.barriers * m.barrier_ns;
}

double product_start_ns(const Machine& m) {
  return path_ns(m, kProductStart) + path_ns(m, kFirstProduct);
}

double weight_issue_ns(const Machine& m, double bytes) {
  return m.bulk_copy ? path_ns(m, kNextBulkCopy) : bytes / kWarpCopyBytes * path_ns(m, kNextWarpCopy);
}

double cache_issue_ns(const Machine& m, double bytes) {
  return bytes / kRowCopiesBytes * path_ns(m, kNextRowCopies);
}

double code_miss_ns(const Machine& m, uint32_t bodies) {
  if (m.code_cache_bytes == 0 || bodies * kBodyCodeBytes <= m.code_cache_bytes) return 0;
  return (kDispatch.instructions + kProductStart.instructions + kFirstProduct.instructions) *
         kInstructionBytes / m.code_bytes_per_ns;
}

}  // namespace mkc
