// Reads the text form (.mkir) of the three levels: docs/ir.md.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "ir/schedule.h"

namespace mkc {

using Module = std::variant<OpGraph, TaskProgram, Schedule>;

// What a line, or a segment within one, of the text describes.
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

// Where the text describes each part, for messages about it.
struct Places {
  std::string text;
  std::map<Subject, Loc> at;
};

// Ids follow the order of the lines. Whatever print() writes is read back to an equal value; what is read
// need not be valid (see verify.h). Objects may be named before their line; of several with one name the
// first is meant. `places`: filled if given. Errors: the first one, located in `file`, with its line.
Result<Module> parse_mkir(std::string_view text, const std::string& file, Places* places = nullptr);

}  // namespace mkc
