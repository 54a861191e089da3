// Machine descriptions hold every hardware number that the scheduler uses. Machine descriptions are loaded
// from data (scheduler/machine/).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"
#include "runtime/abi/weight_format.h"

namespace mkc {

// BurstPoint is the bandwidth of a read of `bytes` that starts with nothing in flight.
struct BurstPoint {
  double bytes = 0;
  double bytes_per_ns = 0;
};

// LoopRate has the multiply-adds per ns of a loop of one worker of a processor. `one` is for a token or query
// row alone, `group` for as many as go together. `many` is for many tokens, for which weights are unpacked
// once. 0: the loop has no such form.
struct LoopRate {
  double one = 0, group = 0, many = 0;
};
// LoopRates has the loop rates by the type of weights, or of keys and values.
using LoopRates = std::array<LoopRate, std::size(mkrt::kWeightTypes)>;

struct Machine {
  std::string json;  // text of the description
  std::string file;  // where the description is from, for errors
  std::string name;
  std::string target;                // "sm_90a", …; "emulator"
  std::vector<std::string> devices;  // names that the CUDA driver gives to the devices described
  double clock_mhz = 0;              // largest clock of an SM
  uint32_t workers = 0;              // one worker per SM
  uint64_t shared_bytes = 0;         // shared memory that one worker can use
  uint32_t ring_stages = 0;          // stages of mkrt::kStageBytes each
  bool bulk_copy = false;            // cp.async.bulk exists; otherwise the loader uses cp.async
  bool warpgroups = false;           // wgmma exists
  bool fp8_mma = false;              // mma.sync multiplies 8-bit floats by an instruction of its own
  uint64_t memory_bytes = 0;         // memory of a device for weights, caches and all else
  uint64_t l2_bytes = 0;
  double l2_bytes_per_ns = 0;          // L2 bandwidth of all workers together
  double peak_bytes_per_ns = 0;        // bandwidth between device and memory, by the data sheet
  double stream_bytes_per_ns = 0;      // measured read ceiling of all workers together
  std::vector<BurstPoint> cold_burst;  // in ascending order of bytes
  double reduce_ns = 0;                // cross-warp reduction and store
  double store_ns = 0;                 // wait of a release for the stores before it
  double notify_ns = 0;                // from a release add to the poll that sees it, with no store before it
  double barrier_ns = 0;               // a barrier of a worker
  double instruction_ns = 0;           // from one instruction of a warp to its next
  double shared_ns = 0;                // a load from shared memory
  double fetch_ns = 0;                 // fetch of dependent operands
  double task_ns = 0;                  // fixed time of each task, beside its bytes
  // The figures from here on serve only the simulation (docs/simulate.md).
  double poll_ns = 0;                 // a wait whose cell is already complete
  double ticket_ns = 0;               // from the claim of a ticket to its number known
  double load_ns = 0;                 // from a copy's issue to its first byte
  double worker_bytes_per_ns = 0;     // highest rate at which one worker takes the stream
  double worker_l2_bytes_per_ns = 0;  // highest rate of one worker's plain loads from L2
  double l2_ns = 0;                   // a load that hits L2
  // The figures from here to attend_bytes_per_ns are 0 for processors.
  double shared_bytes_per_ns = 0;  // rate at which one worker reads its shared memory
  double code_cache_bytes = 0;     // machine code that an SM keeps in its instruction cache
  double code_bytes_per_ns = 0;    // rate at which an SM gets other code from L2
  double activations_ns = 0;       // load and rounding of a tile's activations, for all strips of a block
  double bf16_activations_ns = 0;  // activations_ns of activations that are rounded already
  // The next figures are weight bytes per ns that one worker's consumers multiply, by the product's variant.
  // mma8 multiplies 8 tokens by matrix instructions, or one token of f32 weights. mma16 is Mma32 of up to
  // 16 tokens. fma16 multiplies f32 weights in groups of up to 16 tokens, including its loads.
  double wgmma_bytes_per_ns = 0;  // a block, 128 tokens at a time, by warpgroups
  double mma8_bytes_per_ns = 0, mma16_bytes_per_ns = 0, fma16_bytes_per_ns = 0;
  double mma_per_ns = 0;      // multiply-adds of one worker by mma.sync, of 2-byte types
  double mma_fp8_per_ns = 0;  // multiply-adds of one worker by mma.sync, of 8-bit floats
  // The rate at which one worker goes through keys and values, for one query tile.
  double attend_bytes_per_ns = 0;
  // The figures from here on are 0 for others than processors. Their L2 is the last-level cache, except for
  // worker_l2_bytes_per_ns, which is the rate from a core's own.
  uint32_t group_tokens = 0;  // tokens that go through strips of a product together
  uint32_t group_rows = 0;    // query rows that go through keys and values together
  LoopRates product{};        // products without their epilogues, weights in the core's cache
  LoopRates attend{};         // attention, keys and values in the core's cache
  // product_stream and attend_stream are the rates while all workers read memory.
  LoopRates product_stream{}, attend_stream{};

  // Tells whether 8-bit activations are rounded by quantize grids, for wgmma. Otherwise consumers round them,
  // for mma.sync.
  bool has_quantize_grids() const { return warpgroups; }
  bool multiplies_fp8() const { return fp8_mma || warpgroups; }
  // The emulator and processors run any number of workers.
  bool is_processor() const { return target.starts_with("x86-64"); }
  bool is_gpu() const { return target != "emulator" && !is_processor(); }
};

// Returns the number of workers that the machine runs at once. A GPU runs one per SM. The emulator and
// processors run as many as the user asks for.
uint32_t max_workers(const Machine& machine);

// Returns the time from the last product of a producer to the first product of the consumer that waits for
// it.
double hop_ns(const Machine& machine);

// Returns the machine with each figure at one end of its range. Figures without a range stay. Errors: ends
// that contradict each other.
enum class RangeEnd : uint8_t { kFast, kSlow };
Result<Machine> machine_at(const Machine& machine, RangeEnd end);

// Returns the time to read `bytes` when the stream has stood still. Interpolates the cold bursts linearly.
// Bytes beyond the last point come at the ceiling.
double burst_ns(const Machine& machine, double bytes);

// Returns the names of the built-in descriptions. The first description of a target is the target's default.
std::vector<std::string> machine_names();

// Loads a built-in description by name, or one from a JSON file (a name with a '/' or ending in ".json").
// Every figure of a description carries its source; an estimate also carries its range. Errors: unknown
// names, unreadable files, a ring that does not fit into shared memory; keys that are unknown, missing or out
// of range.
Result<Machine> load_machine(std::string_view name_or_path);

// Reads a description from its text. Errors call it `file`. `source` is the text of the file, where there is
// one, and gives errors the place of their key.
Result<Machine> read_machine(std::string_view json, const std::string& file, std::string_view source = {});

// Returns the default machine of a code generation target.
Result<Machine> machine_for_target(std::string_view target);

}  // namespace mkc
