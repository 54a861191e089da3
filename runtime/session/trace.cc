#include "runtime/session/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/artefact/manifest.h"
#include "runtime/base/json_text.h"

namespace mkrt {
namespace {

using nlohmann::json;

constexpr size_t kNumbers = 5;  // numbers of a stamp in a file: time, kind, grid, task, ring
constexpr const char* kUnits[] = {"stamps", "ns"};
constexpr int32_t kMax = std::numeric_limits<int32_t>::max();

// Subtracts the time of the earliest stamp from all times.
void count_from_first(Trace& trace) {
  uint64_t first = std::numeric_limits<uint64_t>::max();
  for (const TraceTrack& track : trace.tracks)
    if (!track.stamps.empty()) first = std::min(first, track.stamps.front().time);
  for (TraceTrack& track : trace.tracks)
    for (MkStamp& stamp : track.stamps) stamp.time -= first;
}

TraceTrack read_track(const JsonNode& from, size_t grids) {
  TraceTrack track;
  from.allow_keys({"lost", "stamps"});
  track.lost = static_cast<uint32_t>(from.at("lost").integer(kMax));
  const JsonNode stamps = from.at("stamps");
  const json& numbers = stamps.raw();
  if (!numbers.is_array() || numbers.size() % kNumbers != 0) {
    stamps.fail_expected("time, kind, grid, task and ring of each stamp, in turn");
    return track;
  }
  for (size_t i = 0; i < numbers.size(); i += kNumbers) {
    const auto number = [&](size_t place) { return numbers[i + place].get<uint64_t>(); };
    const auto is_below = [&](size_t place, uint64_t end) {
      return numbers[i + place].is_number_unsigned() && number(place) < end;
    };
    constexpr uint64_t kEnd32 = uint64_t{1} << 32;
    if (!numbers[i].is_number_unsigned() || !is_below(1, kStampKinds) || !is_below(2, grids) ||
        !is_below(3, kEnd32) || !is_below(4, kEnd32)) {
      const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(i);
      stamps.fail(fmt::format(
          "stamp {} is {}, expected a time, a kind below {}, a grid below {}, and a task and a "
          "ring of 32 bits",
          i / kNumbers, json(std::vector<json>(first, first + kNumbers)).dump(), kStampKinds, grids));
      return track;
    }
    track.stamps.push_back({number(0), static_cast<uint32_t>(number(3)), static_cast<uint16_t>(number(2)),
                            static_cast<uint16_t>(number(1)), static_cast<uint32_t>(number(4)), 0});
  }
  return track;
}

}  // namespace

uint64_t trace_bytes(uint32_t workers, uint32_t stamps) {
  return uint64_t{workers} * kTracks * (sizeof(MkTrack) + uint64_t{stamps} * sizeof(MkStamp));
}

Trace make_trace(const Manifest& m, const std::string& device, std::vector<TracedRequest> requests,
                 uint32_t stamps, const std::vector<std::byte>& memory) {
  Trace trace{device, m.model, m.target, m.schedule_hash, m.target != "emulator", {}, std::move(requests),
              {}};
  for (const ManifestGrid& grid : m.grids) trace.grids.push_back(grid.name);
  const size_t bytes = trace_bytes(1, stamps) / kTracks;
  for (size_t at = 0; at < memory.size(); at += bytes) {
    MkTrack header;
    std::memcpy(&header, memory.data() + at, sizeof header);
    TraceTrack& track = trace.tracks.emplace_back();
    track.stamps.resize(std::min(header.stamped, stamps));
    track.lost = header.stamped - static_cast<uint32_t>(track.stamps.size());
    if (!track.stamps.empty())
      std::memcpy(track.stamps.data(), memory.data() + at + sizeof header,
                  track.stamps.size() * sizeof(MkStamp));
  }
  count_from_first(trace);
  return trace;
}

std::string to_json(const Trace& trace) {
  json requests = json::array(), tracks = json::array();
  for (const TracedRequest& r : trace.requests) requests.push_back({{"rows", r.rows}, {"kv_len", r.kv_len}});
  for (const TraceTrack& track : trace.tracks) {
    std::vector<uint64_t> numbers;
    for (const MkStamp& s : track.stamps)
      numbers.insert(numbers.end(), {s.time, s.kind, s.grid, s.task, s.ring});
    tracks.push_back({{"lost", track.lost}, {"stamps", std::move(numbers)}});
  }
  return json{{"device", trace.device},          {"model", trace.model},
              {"target", trace.target},          {"schedule_hash", trace.schedule_hash},
              {"unit", kUnits[trace.timed]},     {"grids", trace.grids},
              {"requests", std::move(requests)}, {"tracks", std::move(tracks)}}
      .dump();
}

Result<Trace> parse_trace(std::string_view text, const std::string& file) {
  const Result<json> document = parse_json_text(text, file);
  if (!document.ok()) return document.error();
  Status status;
  const JsonNode root(document.value(), file, status);
  root.allow_keys({"device", "model", "target", "schedule_hash", "unit", "grids", "requests", "tracks"});
  Trace trace;
  trace.device = root.at("device").string();
  trace.model = root.at("model").string();
  trace.target = root.at("target").string();
  trace.schedule_hash = root.at("schedule_hash").string();
  trace.timed = root.at("unit").one_of({kUnits[0], kUnits[1]}) == kUnits[1];
  for (const JsonNode& grid : root.at("grids").items()) trace.grids.push_back(grid.string());
  for (const JsonNode& request : root.at("requests").items()) {
    request.allow_keys({"rows", "kv_len"});
    trace.requests.push_back({request.at("rows").integer(kMax), request.at("kv_len").integer(kMax)});
  }
  const JsonNode tracks = root.at("tracks");
  for (const JsonNode& track : tracks.items()) trace.tracks.push_back(read_track(track, trace.grids.size()));
  if (status.ok() && (trace.tracks.empty() || trace.tracks.size() % kTracks != 0))
    tracks.fail(fmt::format("has {} tracks, expected {} for each worker", trace.tracks.size(), kTracks));
  if (!status.ok()) return status.error();
  return trace;
}

}  // namespace mkrt
