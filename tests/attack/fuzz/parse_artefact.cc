// Seeds of manifests and cubins.
#include "tests/attack/fuzz/parsers.h"

namespace mkc::attack {

std::vector<std::string> manifest_seeds() {
  return {"{}"};
}

std::vector<std::string> artefact_seeds() {
  return {"ELF"};
}

}  // namespace mkc::attack
