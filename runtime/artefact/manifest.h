// The manifest holds everything that the runtime needs to bind a checkpoint to a kernel, and the names for
// its errors. The manifest is kept as JSON in the cubin's global `mk_manifest`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/abi/weight_format.h"
#include "runtime/base/status.h"

namespace mkrt {

constexpr uint32_t kManifestVersion = 7;

// An element is of a weight format, or an integer.
enum class Element : uint8_t { MKRT_EACH_WEIGHT_TYPE(MKRT_ENUMERATOR) kI32 };
uint32_t element_bits(Element e);
uint32_t element_bytes(Element e);    // requires whole bytes
const char* element_name(Element e);  // the name of the dtype: "f32", "bf16", …
// Returns the format of matrices of the element, or nothing where weights have no such format.
std::optional<WeightType> find_weight_type(Element e);

// A symbol is a size that each step sets. The symbol's index in the manifest is also its index in
// MkStep::symbol.
struct ManifestSymbol {
  std::string name;
  int64_t lo = 0, hi = 0;  // bounds; of a list: of each element
  bool list = false;       // one value for each request of a step
  bool operator==(const ManifestSymbol&) const = default;
};

enum class WeightLayout : uint8_t {
  kPacked,  // runtime/abi/packing.h, rows of the sources interleaved by `group`
  kVector,  // one row, kept as f32 whatever float type the checkpoint has
};

// A weight in the weights arena is made from checkpoint tensors of one shape and type.
struct ManifestWeight {
  std::string name;
  uint64_t offset = 0, bytes = 0;
  WeightLayout layout = WeightLayout::kPacked;
  Element element = Element::kBf16;  // in the arena; sources of a packed weight have the same type
  uint64_t rows = 0, cols = 0;       // of a matrix's sources together; a vector has one row
  uint64_t group = 0;                // rows taken from each source in turn; 0 with one source
  std::vector<std::string> sources;  // names in the checkpoint, matrix after matrix of the stack
  uint64_t stack = 1;                // number of packed matrices of rows x cols, one behind the other
  bool operator==(const ManifestWeight&) const = default;
};

// A rope table is [positions, dim] f32: dim / 2 cosines and then dim / 2 sines of position * frequency. All
// are multiplied by `scale`.
struct ManifestRope {
  std::string name;
  uint64_t offset = 0;  // in the weights arena
  uint64_t positions = 0;
  std::vector<double> inv_freq;  // dim / 2
  double scale = 1;
  bool operator==(const ManifestRope&) const = default;
};

enum class Arena : uint8_t { kInput, kWeights, kWorkspace };

// ManifestTensor is a tensor with its place in an arena. `shape` is row-major, at the symbols' upper bounds.
// Inputs have no offset: input i lies at the address MkStep::input[i].
struct ManifestTensor {
  std::string name;
  Arena arena = Arena::kWorkspace;
  Element element = Element::kF32;
  uint64_t offset = 0, bytes = 0;
  std::vector<uint64_t> shape;
  bool operator==(const ManifestTensor&) const = default;
};

// A cache holds keys or values of one layer: for each position of a request, `heads` vectors of head_dim
// elements. The address is given at run time. A cache is identified by its index in the list.
struct ManifestCache {
  std::string name;
  Element element = Element::kBf16;
  uint64_t heads = 0, head_dim = 0;
  std::string scales{};  // kE4m3 only: name of the scales in the checkpoint, which may lack them
  bool operator==(const ManifestCache&) const = default;
};

// A copy is a tensor that no weight reads, because the config calls it a copy of one that is read. A
// checkpoint may lack it.
struct ManifestCopy {
  std::string name, of;
  std::string reason;  // what the config says, for errors: "tie_word_embeddings is true"
  bool operator==(const ManifestCopy&) const = default;
};

struct ManifestEvent {
  std::string name;
  uint32_t first_cell = 0, cells = 0;  // within a bank
  bool operator==(const ManifestEvent&) const = default;
};

enum class GridPlacement : uint8_t { kTable, kRange, kInline, kQueue, kReady };

// A grid of the manifest has the facts of its record in the plan, with names.
struct ManifestGrid {
  std::string name;
  uint32_t kind = 0;  // case of the kernel's dispatch
  GridPlacement placement = GridPlacement::kRange;
  uint32_t tasks = 0;        // kTable: tasks, each in one segment; else 0, and tasks are counted at run time
  uint32_t tickets = 0;      // kQueue and kReady: index of the counter of claimed tasks
  int32_t inline_grid = -1;  // grid that this grid's notifications run; -1: none
  std::vector<std::string> waits, notifies;  // events, in order
  std::vector<std::string> operands;  // tensors by MkGrid::operand; "": none; missing ones are none, too
  std::vector<uint32_t> product;      // words of MkProduct; empty: the grid does not multiply
  bool operator==(const ManifestGrid&) const = default;
};

// The certificate says what was proved of the schedule before the artefact was made.
struct Certificate {
  std::string version;  // of mkc
  std::string verdict;  // "proved", or "unproved"
  struct Bounds {
    std::string symbol;
    int64_t lo = 0, hi = 0;
    bool operator==(const Bounds&) const = default;
  };
  std::vector<Bounds> symbols;                // bounds for which the schedule was proved
  std::string symbolic, enumeration, lemmas;  // what was proved by which method, for people
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
  uint32_t shared_bytes = 0;         // dynamic shared memory of a worker
  uint32_t ring_stages = 0;
  uint32_t event_cells = 0;  // counters of one bank
  uint64_t weight_bytes = 0, workspace_bytes = 0;
  uint64_t vocab = 0;
  std::vector<int32_t> eos_ids;         // empty: not given
  int32_t bos_id = -1;                  // -1: not given
  std::vector<ManifestSymbol> symbols;  // "T", "B", "R", "q_len", "kv_len", "first_row"
  std::vector<ManifestTensor> inputs;   // "tokens", "positions"
  std::vector<ManifestTensor> outputs;  // "logits" [R, vocab] f32, "next" [T] i32
  std::vector<ManifestWeight> weights;
  std::vector<ManifestRope> ropes;
  std::vector<ManifestCopy> copies;
  std::vector<ManifestCache> caches;
  std::vector<ManifestTensor> tensors;  // activations, for names in reports
  std::vector<ManifestGrid> grids;      // by MkGrid::id
  // Grids in the order in which their kernels, mk_grid_<kind>, are launched. An empty list means that
  // mk_kernel runs all grids.
  std::vector<uint32_t> launches;
  bool traced = false;  // the kernel stamps its tasks (runtime/session/trace.h)
  std::vector<ManifestEvent> events;
  Certificate certificate;
  std::string seal, code_seal;  // runtime/artefact/seal.h
  bool operator==(const Manifest&) const = default;
};

// Returns JSON text with sorted keys and no white space. parse_manifest returns the equal value for it.
std::string to_json(const Manifest& manifest);

// Returns the manifest of a JSON text. Errors name the key, the value found and the value expected. The text
// may be no JSON. Keys may be missing, unknown or of a wrong type.
//
// Versions other than this runtime's, sizes that contradict each other, and slots outside their arena are
// errors, too.
Result<Manifest> parse_manifest(std::string_view json);

// Checks a manifest for the errors of parse_manifest that do not come from the text. Such errors concern
// versions, sizes, slots, and names that refer to nothing.
Status check_manifest(const Manifest& manifest);

// Returns the XXH3-128 hash of the bytes as 32 hexadecimal digits. The hash identifies the bytes but does not
// protect them.
std::string hash_hex(std::string_view bytes);

}  // namespace mkrt
