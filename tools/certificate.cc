#include "tools/certificate.h"

#include <fmt/format.h>

#include "tools/artefact.h"

namespace mkc {

mkrt::Certificate certify(const Compilation& c) {
  const ProofReport& proof = c.proof;
  mkrt::Certificate certificate;
  certificate.version = version();
  certificate.verdict = proof.deadlock_free_for_all ? mkrt::kProved : "unproved";
  for (const Symbol& s : c.schedule().program.symbols)
    if (!s.routed && !s.cut) certificate.symbols.push_back({s.name, s.bounds.lo, s.bounds.hi});
  certificate.symbolic = "no deadlock";
  certificate.enumeration =
      fmt::format("{} symbol values, {} left out", proof.checked.size(), proof.values_left_out);
  return certificate;
}

}  // namespace mkc
