// What a search may change. Kinds of a layer's grids whose bodies are not the same in all layers, or that a
// rule of the user's fits, are left out. Internal to search.
#pragma once

#include <string>
#include <vector>

#include "scheduler/settings.h"

namespace mkc {

// By the user.
struct Asked {
  bool wgmma_from = false;
  std::vector<SplitRule> splits{};
  std::vector<PlacementRule> placements{};
  uint32_t ring = 0;  // 0: for none
};

struct Candidate {
  std::string how;    // "in 2 parts", for people
  Settings settings;  // that go over those so far
  bool operator==(const Candidate&) const = default;
};

// Products in each of these numbers of parts. `uneven_among`: only those that have their inputs to themselves
// and whose busiest worker, of so many, has more than 1.1 times the mean of strips; 0: all.
std::vector<Candidate> split_candidates(const TaskProgram& program, const Asked& asked,
                                        const std::vector<int64_t>& parts, uint32_t uneven_among = 0);

// Products that have their inputs to themselves, more columns than rows and fewer strips for each worker than
// a block of many tokens has, in 4 parts, with reductions assigned by table: a worker then loads the
// activations of its parts' columns alone, which of many tokens are more bytes than its weights.
std::vector<Candidate> narrow_candidates(const TaskProgram& program, const Asked& asked, uint32_t workers);

// Warpgroups from the least number of tokens on, where some product may go by them.
std::vector<Candidate> wgmma_candidates(const TaskProgram& program, const Asked& asked);

// Rings of 5/6 and 2/3 of a machine's stages: less run-ahead keeps loaders of many workers nearer together.
std::vector<Candidate> ring_candidates(uint32_t stages, const Asked& asked);

// Tickets for the layers' grids of a body, wherever possible. `layers`: the program's first layers, with
// events and as they are split.
std::vector<Candidate> ticket_candidates(const TaskProgram& program, const TaskProgram& layers,
                                         const Asked& asked);

// Each kind of the layers' grids in each placement.
std::vector<Candidate> placement_candidates(const TaskProgram& program, const TaskProgram& layers,
                                            const Asked& asked);

}  // namespace mkc
