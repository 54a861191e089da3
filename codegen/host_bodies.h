// The emulator's bodies are also machine code, made when mkc was built. Quick code calls them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mkc {

using NamedFunctions = std::vector<std::pair<std::string, void*>>;

struct HostBodies {
  NamedFunctions functions;        // the bodies, and what else a scaffold calls
  std::vector<std::string> sites;  // "file:line", by the site number of race reports
  const void* code = nullptr;      // what holds the code, and is never freed
};

// Returns the bodies, which live as long as the process. The first call loads them. `race` asks for bodies
// that report their accesses to the race detector. Null: the processor cannot execute them.
const HostBodies* host_bodies(bool race);

}  // namespace mkc
