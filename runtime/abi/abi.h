// The host and the megakernel share these structs in device memory. The header is plain C++ without includes
// beyond <cstdint>'s names, because codegen/device/ compiles it for the device, too. Sizes and offsets are
// asserted below. Both are part of the artefact's version (kAbiVersion).
#pragma once

#include <stdint.h>

#include "runtime/abi/sampling.h"

namespace mkrt {

constexpr uint32_t kAbiVersion = 17;

constexpr uint32_t kConsumerWarps = 8;
constexpr uint32_t kConsumerThreads = kConsumerWarps * 32;
// The loader's warp follows the consumers, and three warps without work follow the loader. Registers are
// given out to four warps at a time, so these three cost none.
constexpr uint32_t kLoaderThreads = 32;
constexpr uint32_t kWorkerThreads = kConsumerThreads + 128;

constexpr uint32_t kMaxOperands = 14;
constexpr uint32_t kMaxWaits = 2;
constexpr uint32_t kMaxNotifies = 4;
constexpr uint32_t kMaxSymbols = 8;
constexpr uint32_t kMaxRequests = 64;  // most requests of a step, and elements of its lists

// MkProduct is the sizes of a grid that multiplies with weights [rows, cols], in strips. All are 0 in other
// grids.
struct MkProduct {
  uint32_t rows, cols, out_cols, strips;
  uint32_t tiles, tail_cols;  // tiles of a strip; columns of its last tile
  uint32_t gate;              // mkrt::Activation (runtime/abi/packing.h)
  float eps;                  // epsilon of the norm
  uint32_t sumsq_partials;    // partial sums of squares of a row of x, where these make the norm; else 0
  uint32_t out_bf16;          // out is bf16
  uint32_t gather_rows;       // rows of x are gathered: the last row of each request
  uint32_t split_k;           // parts that share the K slices; each part of a strip is a task; 1: not split
};
static_assert(sizeof(MkProduct) == 48);

// MkGrid is one task grid. Grids whose code is the same up to these numbers share a kind.
struct MkGrid {
  uint32_t kind;  // case of the kernel's dispatch
  uint32_t id;    // GridId, for faults and traces
  // The inline grid is run by whoever completes its cell through this grid's first notify.
  uint32_t inline_grid;
  uint32_t tickets;                    // counter of claimed tasks, where workers claim them; else 0
  uint32_t wait_base[kMaxWaits];       // first counter of each awaited event, in wait order
  uint32_t notify_base[kMaxNotifies];  // first counter of each notified event, in notify order
  // `operand` is by the roles of the body (ir/bodies.h), reads, then writes. An entry is the operand's offset
  // in its arena, in units of kOperandUnit bytes. The entry of a cache is its index in MkSession::caches.
  // kNoOperand stands for an operand that the grid does not have.
  uint32_t operand[kMaxOperands];
  MkProduct product;
};
static_assert(sizeof(MkGrid) == 144);
constexpr uint32_t kNoOperand = 0xffffffffu;
constexpr uint64_t kOperandUnit = 256;

// MkSegment is `count` consecutive tasks of one grid, from `first`. A count of kRangeCount stands for two
// cases. The worker takes share `first` of as many as there are workers, or claims task after task.
struct MkSegment {
  uint32_t grid;
  uint32_t first;
  uint32_t count;
  uint32_t inline_grid;  // MkGrid::inline_grid
};
static_assert(sizeof(MkSegment) == 16);
constexpr uint32_t kRangeCount = 0xffffffffu;

// MkBounds are the sizes that the code was compiled for. The manifest says the same, so that neither can be
// changed alone.
struct MkBounds {
  uint32_t event_cells, shared_bytes, ring_stages, kinds;
  uint32_t max_tokens, max_requests, context, vocab;
  uint32_t caches, cache_heads, cache_head_dim, cache_element;  // sizes of every cache; all caches are alike
  uint32_t launches, traced, reserved[2];
  uint64_t weight_bytes, workspace_bytes;
};
static_assert(sizeof(MkBounds) == 80);

// MkPlanHeader begins the plan blob. MkGrid[grids] and uint32_t stream_begin[workers + 1] follow, each padded
// to 16 bytes, and MkSegment[segments].
struct MkPlanHeader {
  uint32_t magic;  // kPlanMagic
  uint32_t grids;
  uint32_t workers;
  uint32_t segments;
  MkBounds bounds;
};
static_assert(sizeof(MkPlanHeader) == 96);
constexpr uint32_t kPlanMagic = 0x326b6d70u;

// MkFault is the first fault of a launch. The values of `state` are 0 none, 1 being written, 2 complete.
struct MkFault {
  uint32_t state;
  uint32_t worker;
  uint32_t grid;  // a GridId
  uint32_t task;  // task number, or kLookUpTask
  uint32_t cell;  // counter index within the bank, or what else was waited for
  uint32_t seen;  // counter value; for a stage, how many stages the thread had used
  uint32_t expected;
  uint32_t reserved;
};
static_assert(sizeof(MkFault) == 32);
constexpr uint32_t kLookUpTask = 0xffffffffu;   // no task yet: the worker looks up which tasks there are
constexpr uint32_t kRingCell = 0xffffffffu;     // a stage of the ring
constexpr uint32_t kClaimedCell = 0xfffffffdu;  // a task claimed by the loader; `seen`: how many have come
// kStepCell is the begin of the next step: `seen` has begun, `expected` was awaited.
constexpr uint32_t kStepCell = 0xfffffffeu;

// MkCache is where the keys or values of one layer lie.
struct MkCache {
  uint64_t base;    // address of its first byte
  uint64_t scales;  // float[heads]: the value of an e4m3 number is the number times its head's scale
};
static_assert(sizeof(MkCache) == 16);

// MkPack is what mk_pack(pack, workers, threads) lays out: rows [first, first + rows) of one source of a
// packed matrix.
struct MkPack {
  uint64_t from;          // address of these rows as the checkpoint has them
  uint64_t scales;        // address of the rows' scales, f32, where the format has some
  uint64_t group_scales;  // address of f32[rows][groups of group_cols columns], where the format has some
  uint64_t group_zeros;   // address of uint8_t[rows][groups], where the format has zero points
  uint64_t to;            // address of the matrix
  uint64_t first, rows, cols;  // rows and columns of the source
  uint64_t matrix_rows;        // rows of all sources; each source gives `group` rows in turn
  uint64_t sources, source, group;
  uint64_t type;  // WeightType
};
static_assert(sizeof(MkPack) == 104);

// MkStampKind is what a traced kernel says of a moment. Each worker has two tracks, its consumers' and its
// loader's. One thread stamps each of them.
enum MkStampKind : uint16_t {
  kStepBegun,    // consumers only; task: the step's number in the launch
  kTaskReached,  // consumers only
  kTaskBegun,    // waits are over; a loader, which has no kTaskReached, begins to bring what tasks read
  kTaskEnded,    // work is done, notifications follow; task: the one behind the last that ended
};
constexpr uint32_t kStampKinds = 4;
struct MkStamp {
  uint64_t time;  // ns of the GPU's timer; on the emulator, its readings in the launch so far
  uint32_t task;
  uint16_t grid;  // GridId
  uint16_t kind;
  // `ring` is set for kTaskEnded, in the unit of `time`. The value is how long consumers waited for full
  // stages, or a loader for free ones.
  uint32_t ring;
  uint32_t reserved;
};
static_assert(sizeof(MkStamp) == 24);

// MkTrack is the header of a track. MkSession::trace_stamps stamps lie behind it.
struct MkTrack {
  uint32_t stamped;  // stamps of the last launch; those beyond trace_stamps are lost
  uint32_t reserved;
};
static_assert(sizeof(MkTrack) == 8);
constexpr uint32_t kTracks = 2;  // tracks of a worker: consumers, loader

// MkSession is fixed for a session. Device addresses are integers.
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
  // The strides are bytes from one page, position and head of a cache to the next. The elements of a head are
  // contiguous.
  uint64_t page_stride, position_stride, head_stride;
  uint32_t page_shift;    // a page has 1 << page_shift positions, at least 16
  uint32_t trace_stamps;  // stamps of each track of a traced kernel
  uint64_t trace;         // MkTrack[workers][kTracks], each with its stamps
};
static_assert(sizeof(MkSession) == 112);

// MkLogprobs are log-probabilities of one sampled token and of the likeliest tokens, as far as
// sampling.logprobs asks.
struct MkLogprobs {
  float sampled;
  float top[kMaxTop];  // the likeliest first
  uint32_t top_id[kMaxTop];
  uint32_t rank;  // of the sampled token: how many logits are at least as great as its own
};
static_assert(sizeof(MkLogprobs) == 168);

// MkSample is what one request of a launch samples. Device addresses are integers.
struct MkSample {
  MkSampling sampling;  // sampling.position is that of the launch's first sample
  // `seen` is uint32_t[ceil(vocab / 32)]: ids that the penalty applies to, bit id % 32 of word id / 32.
  // Sampled ids are added. 0 stands for no penalty.
  uint64_t seen;
  uint64_t allowed;  // uint32_t[ceil(vocab / 32)], laid out like `seen`: other ids are masked; 0: all allowed
  uint64_t biases;   // MkBias[], by ascending id; 0: none
  // `bias_begin` is uint32_t[ceil(vocab / kBiasBlockIds) + 1]. The biases of a block of ids are those from
  // its entry up to the next one.
  uint64_t bias_begin;
  uint64_t sampled;   // uint32_t[1 + limit]: how many tokens were sampled, and these with their marks
  uint64_t logprobs;  // MkLogprobs[limit]; 0: not asked for
  uint64_t stop_ids;  // int32_t[stops]: the request ends with one of these ids
  uint32_t stops;
  uint32_t limit;      // most tokens sampled; 0: the prompt goes on in another launch, and nothing is sampled
  uint32_t positions;  // positions that its pages hold; the request ends where the next token lies beyond
  uint32_t reserved;
};
static_assert(sizeof(MkSample) == 112);
// kNotFinite marks a sampled token whose row has no greatest logit, or one that is not finite.
constexpr uint32_t kNotFinite = 0x80000000u;

// MkStep is a launch. The host writes its first step, and the kernel makes the others in place from it. The
// launch ends after `steps` steps, or once every request has ended. Requests that end leave a step, and the
// others keep their order.
struct MkStep {
  int32_t symbol[kMaxSymbols];  // values in the manifest's symbol order; 0 for lists
  uint64_t input[4];            // device addresses of the inputs in the manifest's order (tokens, positions)
  uint64_t lists;               // int32_t[kStepLists][kMaxRequests], in the manifest's order
  uint64_t page_begin;          // int32_t[], by request: its first entry of page_index
  uint64_t page_index;          // int32_t[]: pages of the requests in the order of their positions
  uint64_t launch_request;      // uint32_t[], by request: its number among those of the launch
  uint64_t samples;             // MkSample[], by request of the launch
  uint64_t timeout_ns;          // a wait that lasts longer is a fault; 0: never
  uint32_t serial;  // number of the first step in the session; a step counts in bank serial & 1 and clears
                    // the other
  uint32_t steps;
  uint32_t arrived;  // workers that have ended a step, summed over steps; 0 before the launch
  uint32_t begun;    // newest step that may begin, counted from 0 in the launch; kLaunchOver: none any more
};
static_assert(sizeof(MkStep) == 128);
constexpr uint32_t kLaunchOver = 0xffffffffu;

// MkThread is a worker of the processor: a thread, which calls mk_kernel(session, step, thread).
struct MkThread {
  uint32_t worker;
  float ns_per_tick;  // of the time stamp counter
  uint64_t shared;    // address of the worker's own memory, aligned to 64 bytes
};
static_assert(sizeof(MkThread) == 16);

// Indices of MkStep::input and of MkStep::lists.
constexpr uint32_t kTokensInput = 0, kPositionsInput = 1;
constexpr uint32_t kRowsList = 0, kLengthsList = 1, kFirstRowsList = 2, kStepLists = 3;

}  // namespace mkrt
