// What the workers of a traced kernel stamped in one launch (docs/trace.md), and the file that holds it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/abi/abi.h"
#include "runtime/base/status.h"

namespace mkrt {

struct Manifest;

inline bool operator==(const MkStamp& a, const MkStamp& b) {
  return a.time == b.time && a.task == b.task && a.grid == b.grid && a.kind == b.kind && a.ring == b.ring;
}

struct TraceTrack {
  uint32_t lost = 0;  // stamps behind these, for which there was no room
  std::vector<MkStamp> stamps;
  bool operator==(const TraceTrack&) const = default;
};

// A request of the launch's first step.
struct TracedRequest {
  int32_t rows = 0, kv_len = 0;
  bool operator==(const TracedRequest&) const = default;
};

struct Trace {
  std::string device, model, target, schedule_hash;  // of the device and of its kernel's manifest
  bool timed = false;              // stamps are ns since the first of them; else they count stamps
  std::vector<std::string> grids;  // by MkStamp::grid
  std::vector<TracedRequest> requests;
  std::vector<TraceTrack> tracks;  // kTracks of each worker in turn
  bool operator==(const Trace&) const = default;
};

// Bytes of all tracks of so many stamps each.
uint64_t trace_bytes(uint32_t workers, uint32_t stamps);

// Names, and the tracks out of a device's memory.
Trace make_trace(const Manifest& manifest, const std::string& device, std::vector<TracedRequest> requests,
                 uint32_t stamps, const std::vector<std::byte>& memory);

std::string to_json(const Trace& trace);

// Errors, naming the file and the key: what is no such text, or does not fit together.
Result<Trace> parse_trace(std::string_view json, const std::string& file);

}  // namespace mkrt
