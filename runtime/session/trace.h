// A traced kernel's workers make stamps in one launch (docs/trace.md), and a file holds them.
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
  uint32_t lost = 0;  // stamps that there was no room for
  std::vector<MkStamp> stamps;
  bool operator==(const TraceTrack&) const = default;
};

// A traced request is a request of the launch's first step.
struct TracedRequest {
  int32_t rows = 0, kv_len = 0;
  bool operator==(const TracedRequest&) const = default;
};

struct Trace {
  std::string device, model, target, schedule_hash;  // names of the device and from its kernel's manifest
  bool timed = false;              // times are ns since the launch's first stamp; else they count stamps
  std::vector<std::string> grids;  // by MkStamp::grid
  std::vector<TracedRequest> requests;
  std::vector<TraceTrack> tracks;  // kTracks of each worker, worker after worker
  bool operator==(const Trace&) const = default;
};

// Returns the bytes of all workers' tracks with `stamps` stamps each.
uint64_t trace_bytes(uint32_t workers, uint32_t stamps);

// Returns a trace of names and of the tracks in a copy of the device's memory.
Trace make_trace(const Manifest& manifest, const std::string& device, std::vector<TracedRequest> requests,
                 uint32_t stamps, const std::vector<std::byte>& memory);

std::string to_json(const Trace& trace);

// Parses a trace file. Errors name the file and the key: text of another form, parts that do not fit
// together.
Result<Trace> parse_trace(std::string_view json, const std::string& file);

}  // namespace mkrt
