// Fault models are small models to be disturbed. Each has a placement of its own, and a few launches that it
// is fed.
#pragma once

#include <string>
#include <vector>

#include "tests/attack/models_feed.h"

namespace mkc::attack {

// A feed is one launch: rows of some sequences, in this order.
struct Feed {
  struct Part {
    uint32_t sequence = 0, rows = 1;
  };
  std::vector<Part> parts;
  uint32_t samples = 1;  // tokens sampled of each sequence; more than one: no logits are read
};

struct FaultModel {
  std::string name;
  ModelCase model;  // shape and type of cache
  Setting setting;
  uint32_t first_position = 0;  // first position of all sequences, over a cache of zeros
  std::vector<Feed> feeds;
};
std::vector<FaultModel> fault_models();

// An outcome is what the launches gave, or the first error and the launch that had it.
struct Outcome {
  std::string error;
  size_t launches = 0;
  std::vector<float> logits;
  std::vector<int32_t> next;
  bool same_bits(const Outcome& other) const;
};

// A fixture is a model compiled once, its undisturbed outcome, and what its undisturbed launches count.
struct Fixture {
  FaultModel of;
  Compiled compiled;
  Outcome clean;
  std::vector<mkrt::Disturbed> counts;         // counts by launch of the device
  uint32_t counters = 0;                       // counters of a bank
  std::vector<uint32_t> cells, tickets, logs;  // counters by what they count
};
Result<Fixture> make_fixture(const FaultModel& model, const std::string& directory);

std::unique_ptr<mkrt::Device> open_device(const Fixture& fixture, const mkrt::EmulatorDeviceOptions& options);
mkrt::Result<mkrt::Session> open_session(const Fixture& fixture, mkrt::Device& device);
// Feeds a new session all launches, or up to the first error.
Outcome feed_all(const Fixture& fixture, mkrt::Session& session);
// Feeds one token at position 0 of the first sequence.
mkrt::Status feed_one(mkrt::Session& session);

}  // namespace mkc::attack
