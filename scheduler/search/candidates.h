// The search tries candidates, which change the settings of one kind of a layer's grids. A kind of a layer's
// grids is left out if its body differs between layers, or if a rule of the user fits it. This header is
// internal to search.
#pragma once

#include <string>
#include <vector>

#include "scheduler/machine/machine.h"
#include "scheduler/search/settings.h"

namespace mkc {

// Asked has the settings that the user asks for.
struct Asked {
  bool wgmma_from = false;
  std::vector<SplitRule> splits{};
  std::vector<PlacementRule> placements{};
  uint32_t ring = 0;         // ring stages; 0: no request
  bool may_use_fp8 = false;  // the search may let activations be 8-bit floats
  bool codes = false;        // quantize grids are added (add_codes())
};

struct Candidate {
  std::string how;    // "in 2 parts", for people
  Settings settings;  // override the best settings so far
  bool operator==(const Candidate&) const = default;
};

// Returns candidates that split products into each of these numbers of parts. `uneven_among` is a number of
// workers; 0 selects all products. Other numbers select uneven products that are the only consumer of their
// inputs. The busiest worker of an uneven product has more than 1.1 times the mean of strips.
std::vector<Candidate> split_candidates(const TaskProgram& program, const Asked& asked,
                                        const std::vector<int64_t>& parts, uint32_t uneven_among = 0);

// Returns candidates that split narrow products into 4 parts, with reductions assigned by table. A narrow
// product is the only consumer of its inputs and has more columns than rows. A narrow product also has fewer
// strips per worker than a block of many tokens. A worker of a split product loads only the activations of
// its part's columns. Activations of many tokens are more bytes than the product's weights.
std::vector<Candidate> narrow_candidates(const TaskProgram& program, const Asked& asked, uint32_t workers);

// Returns the candidate in which warpgroups multiply from kMinWgmmaFrom tokens on, where some product can use
// them.
std::vector<Candidate> wgmma_candidates(const TaskProgram& program, const Asked& asked);

// Returns the candidate in which activations are 8-bit floats from kMinFp8From tokens on, where that is
// allowed and some product has weights of E4M3.
std::vector<Candidate> fp8_candidates(const TaskProgram& program, const Asked& asked);

// Returns rings of 5/6 and 2/3 of a machine's stages. Less run-ahead keeps the loaders of many workers nearer
// together.
std::vector<Candidate> ring_candidates(uint32_t stages, const Asked& asked);

// Returns tickets for the layers' grids of one body at a time, wherever possible. `layers` are the program's
// first layers, with events and split as in the best settings.
std::vector<Candidate> ticket_candidates(const TaskProgram& program, const TaskProgram& layers,
                                         const Asked& asked);

// Returns each kind of the layers' grids in each placement.
std::vector<Candidate> placement_candidates(const TaskProgram& program, const TaskProgram& layers,
                                            const Asked& asked);

}  // namespace mkc
