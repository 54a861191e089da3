// A PTX kernel, decoded so that warps can execute it. Semantics are those of PTX ISA 8.7.
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

// How a warp's lanes go on after an instruction.
enum class Flow : uint8_t {
  kNext,   // with the next instruction
  kYield,  // with the next instruction, after other warps had their turn
  kRetry,  // with the same instruction, after other warps had their turn
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

// A register or a constant: 32 lanes side by side. A predicate is one word, a bit for each lane.
struct Operand {
  uint32_t offset = 0;
  uint32_t reg = 0;   // constants share register 0, which every lane has written
  uint8_t bytes = 4;  // of a lane; 0: predicate
  bool constant = false;
};

// How a mnemonic is executed and which operands it has.
struct Form {
  Execute execute = nullptr;
  // Results, '=', sources. h, w, d: registers of 2, 4, 8 bytes; p: predicate; x: any of at least `bytes`; a:
  // address; n: an immediate. A '+' behind the results says that they are sources, too.
  std::string pattern;
  bool converged = false;  // .sync or .aligned: all lanes of the warp together
  bool copies = false;     // passes on what nobody wrote without being at fault
  Order order = Order::kWeak;
  Scope scope = Scope::kCta;
  uint8_t bytes = 0, count = 1;  // of a memory access: an element's bytes, elements of a lane
};

struct Instruction {
  Execute execute = nullptr;
  Execute intact = nullptr;  // of one that was broken on purpose
  Kind kind = Kind::kPlain;
  bool converged = false, copies = false;
  bool late = false;  // writes its results after others went on
  bool guarded = false, negated = false;
  Order order = Order::kWeak;
  Scope scope = Scope::kCta;
  uint8_t bytes = 0, count = 1;
  uint8_t results = 0, sources = 0;
  uint32_t first_operand = 0;  // in Kernel::operands; results come first
  Operand guard;
  uint32_t target = 0;           // of a branch; the number of its table
  int64_t displacement[3] = {};  // of address operands, in order
  uint32_t line = 0;
  const std::string* name = nullptr;
};

// Registers that are written before a kernel begins, in this order behind register 0.
enum Special : uint32_t { kTid = 1, kCtaid, kNtid, kNctaid, kLaneid, kSpecials };

struct Parameter {
  uint32_t offset, bytes;
};

struct Kernel {
  std::string name;
  uint32_t max_threads = 0;
  std::vector<Operand> specials;  // by Special
  uint32_t registers = 0, register_bytes = 0;
  std::vector<uint8_t> constants;
  std::vector<Instruction> code;
  std::vector<Operand> operands;
  std::vector<std::vector<uint32_t>> tables;  // of brx.idx
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  bool has_wgmma = false;
  uint32_t registers_per_thread = 0;  // as the cubin says; 0: unknown
};

struct Module {
  std::string target;  // "sm_90a"
  std::map<std::string, Kernel> kernels;
};

// Shared memory begins here; the KiB before it is the system's.
constexpr uint64_t kSharedBase = 0x400;

struct PtxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws PtxError with the line for anything it does not know.
Module parse_ptx(std::string_view text);

// The form of a mnemonic; " pack" and " unpack" behind it tell moves to and from a vector.
std::optional<Form> find_form(std::string_view mnemonic);

}  // namespace softgpu
