// What the host and the megakernel share in device memory. Plain C++ without includes beyond <cstdint>'s
// names: codegen/device/ compiles it for the device too. Sizes and offsets are asserted below and part of the
// artefact's version (kAbiVersion).
#pragma once

#include <stdint.h>

#include "runtime/sampling.h"

namespace mkrt {

constexpr uint32_t kAbiVersion = 10;

constexpr uint32_t kConsumerWarps = 8;
constexpr uint32_t kConsumerThreads = kConsumerWarps * 32;
// Then the loader's warp, and three without work: registers are given out to four warps at a time, so they
// cost none.
constexpr uint32_t kLoaderThreads = 32;
constexpr uint32_t kWorkerThreads = kConsumerThreads + 128;

constexpr uint32_t kMaxOperands = 14;
constexpr uint32_t kMaxWaits = 2;
constexpr uint32_t kMaxNotifies = 4;
constexpr uint32_t kMaxSymbols = 8;
constexpr uint32_t kMaxRequests = 64;  // of a step, and elements of its lists

// Sizes of a grid that multiplies with weights [rows, cols], in strips; of others all 0.
struct MkProduct {
  uint32_t rows, cols, out_cols, strips;
  uint32_t tiles, tail_cols;  // of a strip; columns of its last tile
  uint32_t gate;              // mkrt::Gate (runtime/packing.h)
  float eps;                  // of the norm
  uint32_t sumsq_partials;    // sums of squares of a row of x, where these make the norm
  uint32_t out_bf16;          // to bf16
  uint32_t gather_rows;       // of x the last row of each request is taken
  uint32_t split_k;           // each of which is a task of a strip; 1: it is not split
};
static_assert(sizeof(MkProduct) == 48);

// One task grid. Grids whose code is the same up to these numbers share a kind.
struct MkGrid {
  uint32_t kind;         // case of the kernel's dispatch
  uint32_t id;           // GridId, for faults and traces
  uint32_t inline_grid;  // the grid run by whoever completes its cell through this grid's first notify
  uint32_t tickets;      // counter of the tasks claimed, where workers claim them; else 0
  uint32_t wait_base[kMaxWaits];       // first counter of each awaited event, in wait order
  uint32_t notify_base[kMaxNotifies];  // first counter of each notified event, in notify order
  // By the roles of the body (ir/bodies.h), reads, then writes: the operand's offset in its arena, in units
  // of kOperandUnit bytes; of a cache its entry of MkSession::caches. kNoOperand: the grid has none.
  uint32_t operand[kMaxOperands];
  MkProduct product;
};
static_assert(sizeof(MkGrid) == 144);
constexpr uint32_t kNoOperand = 0xffffffffu;
constexpr uint64_t kOperandUnit = 256;

// `count` consecutive tasks of one grid, from `first`; count kRangeCount: the worker takes share `first` of
// as many as there are workers, or samples task after task.
struct MkSegment {
  uint32_t grid;
  uint32_t first;
  uint32_t count;
  uint32_t inline_grid;  // of the grid
};
static_assert(sizeof(MkSegment) == 16);
constexpr uint32_t kRangeCount = 0xffffffffu;

// Sizes that the code was compiled for. The manifest says the same, so that neither can be changed alone.
struct MkBounds {
  uint32_t event_cells, shared_bytes, ring_stages, kinds;
  uint32_t max_tokens, max_requests, context, vocab;
  uint32_t caches, cache_heads, cache_head_dim, cache_element;  // all caches are alike
  uint32_t launches, traced, reserved[2];
  uint64_t weight_bytes, workspace_bytes;
};
static_assert(sizeof(MkBounds) == 80);

// Header of the plan blob; then MkGrid[grids] and uint32_t stream_begin[workers + 1], each padded to 16
// bytes, MkSegment[segments].
struct MkPlanHeader {
  uint32_t magic;  // kPlanMagic
  uint32_t grids;
  uint32_t workers;
  uint32_t segments;
  MkBounds bounds;
};
static_assert(sizeof(MkPlanHeader) == 96);
constexpr uint32_t kPlanMagic = 0x326b6d70u;

// The first fault of a launch. state: 0 none, 1 being written, 2 complete.
struct MkFault {
  uint32_t state;
  uint32_t worker;
  uint32_t grid;  // GridId
  uint32_t task;  // or kLookUpTask
  uint32_t cell;  // counter index within the bank, or what else was waited for
  uint32_t seen;  // of a stage: how many the thread had used
  uint32_t expected;
  uint32_t reserved;
};
static_assert(sizeof(MkFault) == 32);
constexpr uint32_t kLookUpTask = 0xffffffffu;   // before the first: the worker looks up which tasks there are
constexpr uint32_t kRingCell = 0xffffffffu;     // a stage of the ring
constexpr uint32_t kClaimedCell = 0xfffffffdu;  // a task claimed by the loader: `seen` have come
constexpr uint32_t kStepCell =
    0xfffffffeu;  // the next step's begin: `seen` has begun, `expected` was awaited

// Where keys or values of one layer lie.
struct MkCache {
  uint64_t base;    // its first byte
  uint64_t scales;  // float[heads]: an e4m3 number stands for itself times its head's scale
};
static_assert(sizeof(MkCache) == 16);

// What mk_pack(pack, workers, threads) lays out: rows [first, first + rows) of one source of a packed matrix.
struct MkPack {
  uint64_t from, to;           // these rows as the checkpoint has them; the matrix
  uint64_t first, rows, cols;  // of the source
  uint64_t matrix_rows;        // of all sources, from each of which `group` are taken in turn
  uint64_t sources, source, group;
  uint64_t elem_bytes;
};
static_assert(sizeof(MkPack) == 80);

// What a traced kernel says of a moment. Each worker has two tracks: its consumers' and its loader's, each
// stamped by one thread.
enum MkStampKind : uint16_t {
  kStepBegun,    // of consumers; task: the step's number in the launch
  kTaskReached,  // of consumers
  kTaskBegun,    // its waits are over; of a loader, without the stamp before: it brings what tasks read
  kTaskEnded,    // its work is done, notifications follow; task: the one behind the last that ended
};
constexpr uint32_t kStampKinds = 4;
struct MkStamp {
  uint64_t time;  // ns of the GPU's timer; on the emulator its readings in the launch so far
  uint32_t task;
  uint16_t grid;  // GridId
  uint16_t kind;
  // Of kTaskEnded, in the unit of time: how long consumers waited for full stages, a loader for free ones.
  uint32_t ring;
  uint32_t reserved;
};
static_assert(sizeof(MkStamp) == 24);

// Header of a track; MkSession::trace_stamps stamps lie behind it.
struct MkTrack {
  uint32_t stamped;  // in the last launch; those beyond trace_stamps are lost
  uint32_t reserved;
};
static_assert(sizeof(MkTrack) == 8);
constexpr uint32_t kTracks = 2;  // of a worker: consumers, loader

// Fixed for a session. Device addresses as integers.
struct MkSession {
  uint64_t weights;
  uint64_t workspace;
  uint64_t caches;        // MkCache[], in the manifest's order
  uint64_t counters;      // uint32_t[2][event_cells], zeroed before the first launch
  uint64_t grids;         // MkGrid[]
  uint64_t stream_begin;  // uint32_t[workers + 1]
  uint64_t segments;      // MkSegment[]
  uint64_t fault;         // MkFault
  uint32_t event_cells;
  uint32_t workers;
  // Bytes from one page, position and head of a cache to the next; the elements of a head lie together.
  uint64_t page_stride, position_stride, head_stride;
  uint32_t page_shift;    // a page has 1 << page_shift positions, at least 16
  uint32_t trace_stamps;  // of each track of a traced kernel
  uint64_t trace;         // MkTrack[workers][kTracks], each with its stamps
};
static_assert(sizeof(MkSession) == 112);

// Log-probabilities of one token sampled and of the likeliest, as far as sampling.logprobs asks.
struct MkLogprobs {
  float sampled;
  float top[kMaxTop];  // the likeliest first
  uint32_t top_id[kMaxTop];
};
static_assert(sizeof(MkLogprobs) == 164);

// What one request of a launch samples. Device addresses as integers.
struct MkSample {
  MkSampling sampling;  // position: of the first sample of the launch
  uint64_t seen;        // uint32_t[ceil(vocab / 32)]: ids that the penalty applies to, bit id % 32 of word
                        // id / 32; what is sampled is added. 0: there is no penalty
  uint64_t sampled;     // uint32_t[1 + limit]: how many tokens were sampled, and these
  uint64_t logprobs;    // MkLogprobs[limit]; 0: not asked for
  uint64_t stop_ids;    // int32_t[stops]: the request ends with one of these,
  uint32_t stops;
  uint32_t limit;      // after so many tokens (0: nothing is sampled, its prompt goes on in another launch),
  uint32_t positions;  // or where the next token's position is beyond these, which its pages hold
  uint32_t reserved;
};
static_assert(sizeof(MkSample) == 88);

// A launch: its first step, from which the kernel makes the others in place, until `steps` or until every
// request has ended. Requests that end leave a step; the others keep their order.
struct MkStep {
  int32_t symbol[kMaxSymbols];  // values in the manifest's symbol order; of lists 0
  uint64_t input[4];            // device addresses of the inputs in the manifest's order (tokens, positions)
  uint64_t lists;               // int32_t[kStepLists][kMaxRequests], in the manifest's order
  uint64_t page_begin;          // int32_t[]: a request's first entry of page_index
  uint64_t page_index;          // int32_t[]: pages of the requests in the order of their positions
  uint64_t slot;                // uint32_t[]: the number of a request among those of the launch
  uint64_t samples;             // MkSample[], of the launch's requests
  uint64_t timeout_ns;          // a wait that lasts longer is a fault; 0: never
  uint32_t serial;              // of the first step among those of the session; a step counts in bank
                                // serial & 1 and clears the other
  uint32_t steps;
  uint32_t arrived;  // workers that have ended a step, summed over steps; 0 before the launch
  uint32_t begun;    // the newest step that may begin, of the launch from 0; kLaunchOver: none any more
};
static_assert(sizeof(MkStep) == 128);
constexpr uint32_t kLaunchOver = 0xffffffffu;

// Places in MkStep::input and lists.
constexpr uint32_t kTokensInput = 0, kPositionsInput = 1;
constexpr uint32_t kRowsList = 0, kLengthsList = 1, kFirstRowsList = 2, kStepLists = 3;

}  // namespace mkrt
