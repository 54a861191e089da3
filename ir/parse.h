// The three levels are read from the text form (.mkir), which docs/ir.md defines.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "ir/schedule.h"

namespace mkc {

using Module = std::variant<OpGraph, TaskProgram, Schedule>;

const char* level_of(const Module& module);  // "ops", "tasks" or "schedule"

// Part is the kind of object that a line of the text, or a segment within a line, describes.
enum class Part : uint8_t {
  kHeader,
  kMachine,
  kRing,
  kArenas,
  kSymbol,  // index: SymbolId
  kTensor,  // TensorId
  kRope,    // position in ropes
  kOp,      // OpId
  kEvent,   // EventId
  kGrid,    // GridId; sub of the next four: position in the grid's list
  kRead,
  kWrite,
  kWait,
  kNotify,
  kPlace,
  kWorker,   // worker
  kSegment,  // worker; sub: position in its stream
};

struct Subject {
  Part part = Part::kHeader;
  uint32_t index = 0;
  uint32_t sub = 0;
  auto operator<=>(const Subject&) const = default;
};

inline Subject subject_of(TensorId id) {
  return {Part::kTensor, id.index};
}
inline Subject subject_of(EventId id) {
  return {Part::kEvent, id.index};
}
inline Subject subject_of(GridId id) {
  return {Part::kGrid, id.index};
}

// Places has the place of each part in the text, for messages about it.
struct Places {
  std::string text;
  std::map<Subject, Loc> at;
};

// Returns error_at() of the part's place. Returns "error: MESSAGE" where `places` is null or lacks the part.
Error error_about(Subject subject, std::string_view message, const Places* places);

// Parses the text form. Ids follow the order of the lines. The text of print() is read back to an equal
// value. The result need not be valid (verify.h). Objects may be named before their line. A name that several
// objects have means the first. Fills `places` if given. Errors: the first one, located in `file`, with its
// line.
Result<Module> parse_mkir(std::string_view text, const std::string& file, Places* places = nullptr);

}  // namespace mkc
