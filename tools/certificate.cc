#include "tools/certificate.h"

#include <fmt/format.h>

#include "tools/artefact.h"

namespace mkc {

mkrt::Certificate certify(const Compilation& c) {
  const ProofReport& proof = c.proof;
  mkrt::Certificate certificate;
  certificate.version = version();
  certificate.verdict = proof == ProofReport{} ? "unproved" : mkrt::kProved;
  for (const Symbol& s : c.schedule().program.symbols)
    if (!s.routed && !s.cut) certificate.symbols.push_back({s.name, s.bounds.lo, s.bounds.hi});
  certificate.symbolic = fmt::format("{} statements", proof.symbolic);
  certificate.enumeration = fmt::format("{} statements", proof.enumerated);
  certificate.lemmas = fmt::format("{} statements", proof.lemmas);
  return certificate;
}

}  // namespace mkc
