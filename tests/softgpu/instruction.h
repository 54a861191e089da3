// PTX kernels are decoded into instructions that warps can execute. Semantics are those of PTX ISA 8.7.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu {

struct Warp;
struct Instruction;

// `Flow` says how a warp's lanes go on after an instruction.
enum class Flow : uint8_t {
  kNext,   // the next instruction follows
  kYield,  // the next instruction follows after other warps had their turn
  kRetry,  // the same instruction follows after other warps had their turn
};
using Execute = Flow (*)(Warp&, const Instruction&, uint32_t lanes);

enum class Kind : uint8_t { kPlain, kBranch, kTable, kReturn };
enum class Order : uint8_t { kWeak, kRelaxed, kAcquire, kRelease, kAcqRel };
enum class Scope : uint8_t { kCta, kGpu, kSys };

inline bool acquires(Order o) {
  return o == Order::kAcquire || o == Order::kAcqRel;
}
inline bool releases(Order o) {
  return o == Order::kRelease || o == Order::kAcqRel;
}

// An operand is a register or a constant: 32 lanes side by side. A predicate is one word with a bit for each
// lane.
struct Operand {
  uint32_t offset = 0;
  uint32_t reg = 0;   // constants share register 0, which every lane has written
  uint8_t bytes = 4;  // bytes of a lane; 0: predicate
  bool constant = false;
};

// A form says how a mnemonic is executed and which operands it has.
struct Form {
  Execute execute = nullptr;
  // The pattern lists results, '=', and sources. h, w and d are registers of 2, 4 and 8 bytes; p is a
  // predicate. x is a value of at least `bytes`; a is an address; n is an immediate. A '+' behind the results
  // says that they are sources, too.
  std::string pattern;
  bool converged = false;  // .sync or .aligned: all lanes of the warp execute it together
  bool copies = false;     // passes unwritten values on without a fault
  Order order = Order::kWeak;
  Scope scope = Scope::kCta;
  uint8_t bytes = 0, count = 1;  // bytes of an element and elements of a lane, for a memory access
};

struct Instruction {
  Execute execute = nullptr;
  Execute intact = nullptr;  // the replaced function, if a defect breaks the instruction
  Kind kind = Kind::kPlain;
  bool converged = false, copies = false;
  bool late = false;  // the results are written after later instructions have run
  bool guarded = false, negated = false;
  Order order = Order::kWeak;
  Scope scope = Scope::kCta;
  uint8_t bytes = 0, count = 1;
  uint8_t results = 0, sources = 0;
  uint32_t first_operand = 0;  // index in Kernel::operands; results come first
  Operand guard;
  uint32_t target = 0;           // target of a branch, or the number of its table
  int64_t displacement[3] = {};  // displacements of address operands, in order
  uint32_t line = 0;
  const std::string* name = nullptr;
};

// Special registers are written before a kernel begins. They follow register 0 in this order.
enum Special : uint32_t { kTid = 1, kCtaid, kNtid, kNctaid, kLaneid, kSpecials };

struct Parameter {
  uint32_t offset, bytes;
};

struct Kernel {
  std::string name;
  uint32_t max_threads = 0;
  std::vector<Operand> specials;  // registers, by Special
  uint32_t registers = 0, register_bytes = 0;
  std::vector<uint8_t> constants;
  std::vector<Instruction> code;
  std::vector<Operand> operands;
  std::vector<std::vector<uint32_t>> tables;  // branch targets of brx.idx, by table
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  bool has_wgmma = false;
  uint32_t registers_per_thread = 0;  // register count that the cubin states; 0: unknown
};

struct Module {
  std::string target;  // an architecture such as "sm_90a"
  std::map<std::string, Kernel> kernels;
};

// Shared memory begins at 1 KiB. The KiB before it is the system's.
constexpr uint64_t kSharedBase = 0x400;

struct PtxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Parses a module. Throws PtxError with the line for anything that it does not know.
Module parse_ptx(std::string_view text);

// Returns the form of a mnemonic. Suffixes such as " pack" and " unpack" tell forms of one mnemonic apart.
std::optional<Form> find_form(std::string_view mnemonic);
// Returns whether a mnemonic begins with the text.
bool begins_form(std::string_view text);

}  // namespace softgpu
