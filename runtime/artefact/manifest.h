// What an artefact says about itself: everything the runtime needs to bind a checkpoint to a kernel, and the
// names that its errors use. Kept as JSON in the cubin's global `mk_manifest`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/abi/weight_format.h"
#include "runtime/base/status.h"

namespace mkrt {

constexpr uint32_t kManifestVersion = 6;

enum class Element : uint8_t { kF32, kF16, kBf16, kE4m3, kI32 };
uint32_t element_bytes(Element e);
const char* element_name(Element e);  // "f32", "f16", "bf16", "e4m3", "i32"
// Returns the format of matrices of the element, or nothing where weights have no such format.
std::optional<WeightType> find_weight_type(Element e);

// A size that each step sets; its position in the manifest is its position in MkStep::symbol.
struct ManifestSymbol {
  std::string name;
  int64_t lo = 0, hi = 0;  // of each element of a list
  bool list = false;       // over the requests of a step
  bool operator==(const ManifestSymbol&) const = default;
};

enum class WeightLayout : uint8_t {
  kPacked,  // runtime/abi/packing.h, rows of the sources interleaved by `group`
  kVector,  // one row, kept as f32 whatever float type the checkpoint has
};

// One weight in the weights arena, made from checkpoint tensors of one shape and type.
struct ManifestWeight {
  std::string name;
  uint64_t offset = 0, bytes = 0;
  WeightLayout layout = WeightLayout::kPacked;
  Element element = Element::kBf16;  // in the arena; a packed weight's sources have it too
  uint64_t rows = 0, cols = 0;       // of a matrix's sources together; a vector has one row
  uint64_t group = 0;                // rows taken from each source in turn; 0 with one source
  std::vector<std::string> sources;  // names in the checkpoint, those of each matrix of the stack together
  uint64_t stack = 1;                // packed matrices of rows x cols, one behind the other
  bool operator==(const ManifestWeight&) const = default;
};

// Cosines, then sines, of positions x frequencies: [positions, dim] f32, dim/2 of each, times `scale`.
struct ManifestRope {
  std::string name;
  uint64_t offset = 0;  // in the weights arena
  uint64_t positions = 0;
  std::vector<double> inv_freq;  // dim / 2
  double scale = 1;
  bool operator==(const ManifestRope&) const = default;
};

enum class Arena : uint8_t { kInput, kWeights, kWorkspace };

// A tensor's place; `shape` at the symbols' upper bounds, row-major. Inputs have no offset: their address is
// MkStep::input at their position among the inputs.
struct ManifestTensor {
  std::string name;
  Arena arena = Arena::kWorkspace;
  Element element = Element::kF32;
  uint64_t offset = 0, bytes = 0;
  std::vector<uint64_t> shape;
  bool operator==(const ManifestTensor&) const = default;
};

// Keys or values of one layer: for each position of a request, `heads` vectors of head_dim elements. Where
// they lie is said at run time; a cache is known by its place in the list.
struct ManifestCache {
  std::string name;
  Element element = Element::kBf16;
  uint64_t heads = 0, head_dim = 0;
  std::string scales{};  // of kE4m3: the checkpoint's name for them, where it may have some
  bool operator==(const ManifestCache&) const = default;
};

struct ManifestEvent {
  std::string name;
  uint32_t first_cell = 0, cells = 0;  // within a bank
  bool operator==(const ManifestEvent&) const = default;
};

enum class GridPlacement : uint8_t { kTable, kRange, kInline, kQueue, kReady };

// What a grid's record in the plan says, by name.
struct ManifestGrid {
  std::string name;
  uint32_t kind = 0;  // of code
  GridPlacement placement = GridPlacement::kRange;
  uint32_t tasks = 0;        // of kTable, each in one segment; else 0: they are counted at run time
  uint32_t tickets = 0;      // of kQueue and kReady: their counter
  int32_t inline_grid = -1;  // run by notifications of this grid; -1: none
  std::vector<std::string> waits, notifies;  // events, in order
  std::vector<std::string> operands;         // tensors by their place; "": none; others there are none
  std::vector<uint32_t> product;             // the words of its MkProduct; empty: it does not multiply
  bool operator==(const ManifestGrid&) const = default;
};

// What was proved of the schedule before the artefact was made.
struct Certificate {
  std::string version;  // of mkc
  std::string verdict;  // "proved", or "unproved"
  struct Bounds {
    std::string symbol;
    int64_t lo = 0, hi = 0;
    bool operator==(const Bounds&) const = default;
  };
  std::vector<Bounds> symbols;                // for which it was proved
  std::string symbolic, enumeration, lemmas;  // what was proved how, for people
  bool operator==(const Certificate&) const = default;
};
constexpr const char* kProved = "proved";

struct Manifest {
  uint32_t version = kManifestVersion;
  uint32_t abi = 0;                  // kAbiVersion
  std::string mkc_version;           // of the compiler
  std::string model;                 // family
  std::string config_hash;           // hash_hex() of the checkpoint's config.json
  std::string schedule_hash;         // hash_hex() of the schedule's text
  std::string target;                // "sm_90a", …, "emulator"
  std::vector<std::string> without;  // parts of the target that the code does not use: "wgmma", …
  uint32_t workers = 0;              // CTAs of the cooperative launch
  uint32_t threads = 0;              // of a worker
  uint32_t shared_bytes = 0;         // dynamic, of a worker
  uint32_t ring_stages = 0;
  uint32_t event_cells = 0;  // counters of one bank
  uint64_t weight_bytes = 0, workspace_bytes = 0;
  uint64_t vocab = 0;
  std::vector<int32_t> eos_ids;         // empty: none given
  int32_t bos_id = -1;                  // -1: none given
  std::vector<ManifestSymbol> symbols;  // "T", "B", "R", "q_len", "kv_len", "first_row"
  std::vector<ManifestTensor> inputs;   // "tokens", "positions"
  std::vector<ManifestTensor> outputs;  // "logits" [R, vocab] f32, "next" [T] i32
  std::vector<ManifestWeight> weights;
  std::vector<ManifestRope> ropes;
  std::vector<ManifestCache> caches;
  std::vector<ManifestTensor> tensors;  // activations, for names in reports
  std::vector<ManifestGrid> grids;      // by MkGrid::id
  // Grids in the order in which their kernels, mk_grid_<kind>, are launched; empty: mk_kernel runs all.
  std::vector<uint32_t> launches;
  bool traced = false;  // the kernel stamps what it does (runtime/session/trace.h)
  std::vector<ManifestEvent> events;
  Certificate certificate;
  std::string seal, code_seal;  // runtime/artefact/seal.h
  bool operator==(const Manifest&) const = default;
};

// JSON text, keys sorted, no white space; parse_manifest gives the equal value.
std::string to_json(const Manifest& manifest);

// Errors, each naming the key, what was found and what is expected: text that is no JSON, missing, unknown
// or wrongly typed keys, versions other than this runtime's, sizes that contradict each other, slots outside
// their arena.
Result<Manifest> parse_manifest(std::string_view json);

// Errors of parse_manifest that do not come from the text: versions, sizes, slots, names that nothing has.
Status check_manifest(const Manifest& manifest);

// 32 hexadecimal digits: XXH3-128 of the bytes. For identity, not for security.
std::string hash_hex(std::string_view bytes);

}  // namespace mkrt
