// Machine descriptions: every hardware number the scheduler uses, loaded from data (scheduler/machines/).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"

namespace mkc {

// Bandwidth reached by a read of `bytes` that starts with nothing in flight.
struct BurstPoint {
  double bytes = 0;
  double bytes_per_ns = 0;
};

struct Machine {
  std::string json;  // what it was read from
  std::string name;
  std::string target;                // "sm_90a", …; "emulator"
  std::vector<std::string> devices;  // names that the CUDA driver gives to what is described
  double clock_mhz = 0;              // the largest of an SM
  uint32_t workers = 0;              // one for each SM
  uint64_t shared_bytes = 0;         // usable by one worker
  uint32_t ring_stages = 0;          // of mkrt::kStageBytes each
  bool bulk_copy = false;            // cp.async.bulk exists; otherwise the loader uses cp.async
  bool warpgroups = false;           // wgmma exists
  uint64_t memory_bytes = 0;         // that a device has for weights, caches and all else
  uint64_t l2_bytes = 0;
  double l2_bytes_per_ns = 0;          // all workers together
  double peak_bytes_per_ns = 0;        // between device and memory, by the data sheet
  double stream_bytes_per_ns = 0;      // measured read ceiling of all workers together
  std::vector<BurstPoint> cold_burst;  // rising in bytes
  double reduce_ns = 0;                // cross-warp reduction and store
  double store_ns = 0;                 // what a release waits for the stores before it
  double notify_ns = 0;                // release add to the poll that sees it, with no store before it
  double barrier_ns = 0;               // of a worker
  double instruction_ns = 0;           // of a warp, from one of its instructions to the next
  double shared_ns = 0;                // a load from shared memory
  double fetch_ns = 0;                 // dependent operands
  double task_ns = 0;                  // of each task, beside its bytes
  // Of the simulation alone (docs/simulate.md).
  double poll_ns = 0;                 // a wait whose cell is already complete
  double ticket_ns = 0;               // a ticket claimed to its number known
  double load_ns = 0;                 // a copy's issue to its first byte
  double worker_bytes_per_ns = 0;     // most of the stream that one worker takes
  double worker_l2_bytes_per_ns = 0;  // most that one worker's plain loads bring from L2
  double shared_bytes_per_ns = 0;     // that one worker reads from its shared memory
  double l2_ns = 0;                   // a load that hits L2
  double code_cache_bytes = 0;        // machine code that an SM keeps near
  double code_bytes_per_ns = 0;       // at which it gets the rest from L2
  double activations_ns = 0;          // those of a tile loaded and rounded, for all strips of a block
  double bf16_activations_ns = 0;     // the same of those that are rounded already
  // Weight bytes that one worker's consumers multiply with them, by the product's variant: of 8 tokens (of
  // f32 weights one) by matrix instructions; f32 weights in groups of up to 16, their loads included.
  double wgmma_bytes_per_ns = 0;  // of a block, 128 tokens at a time by warpgroups
  double mma8_bytes_per_ns = 0, mma16_bytes_per_ns = 0, fma16_bytes_per_ns = 0;
  double mma_per_ns = 0;  // multiply-adds of one worker by mma.sync
  double attend_bytes_per_ns =
      0;  // keys and values that one worker goes through, for one block of query rows
};

// Workers that it runs at once: the emulator as many as a test may ask for, a GPU one for each SM.
uint32_t max_workers(const Machine& machine);

// From the last product of a producer to the first product of the consumer that waits for it.
double hop_ns(const Machine& machine);

// The machine with each figure at one end of its range. Figures without a range stay. Errors: ends that
// contradict each other.
enum class RangeEnd : uint8_t { kFast, kSlow };
Result<Machine> machine_at(const Machine& machine, RangeEnd end);

// Time to read `bytes` when the stream has stood still, by linear interpolation of the cold bursts;
// beyond the last point the rest comes at the ceiling.
double burst_ns(const Machine& machine, double bytes);

// Names of the built-in descriptions; of several with one target the first is its default.
std::vector<std::string> machine_names();

// A built-in description by name, or one from a JSON file (anything with a '/' or ending in ".json"). Errors:
// unknown names, unreadable files, keys that are unknown, missing or out of range, a ring that does not fit
// into shared memory. Every figure of a description carries its source, an estimate its range, too.
Result<Machine> load_machine(std::string_view name_or_path);

// One from a description's text. `file`: what errors call it.
Result<Machine> read_machine(std::string_view json, const std::string& file);

// The default machine of a code generation target.
Result<Machine> machine_for_target(std::string_view target);

}  // namespace mkc
