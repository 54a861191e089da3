/* The C interface of libmkrt: load an artefact that mkc made, bind a checkpoint, run steps or serve requests
 * (docs/c-abi.md). An artefact is a cubin for a GPU, or a shared object for a processor.
 *
 * A function that fails returns a status other than MKRT_OK, NULL or 0. mkrt_error() and mkrt_error_status()
 * say why. None throws, aborts or prints. NULL arguments and closed handles are errors unless said otherwise.
 *
 * A struct that begins with `size` has versions. The caller sets `size` to the sizeof of its own header.
 * Later versions add fields at the end, and the library takes 0 for the fields of versions after the
 * caller's. A size that is no version's is an error. Structs without `size` never change.
 *
 * Each function says which threads may call it. "Threads: any" means any thread at any time. "Threads: one"
 * means one thread at a time for a device, its sessions and their engines; a call beside another one fails
 * with MKRT_BUSY. Different devices are independent. */
#ifndef MKRT_H
#define MKRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
typedef struct mkrt_device mkrt_device;
typedef struct mkrt_session mkrt_session;
typedef struct mkrt_engine mkrt_engine;

/* A status says how a call ended, and what the caller can do about it. Later versions may add values. */
typedef enum mkrt_status {
  MKRT_OK = 0,
  MKRT_BAD_ARGUMENT = 1, /* an argument is wrong; nothing has changed */
  MKRT_BAD_HANDLE = 2,   /* the handle is not open */
  MKRT_BAD_FILE = 3,     /* an artefact or checkpoint is missing, broken, or not that of the other */
  MKRT_OUT_OF_ORDER = 4, /* the call is right, but not now; nothing has changed */
  MKRT_BUSY = 5,         /* another thread is in a call; nothing has changed */
  MKRT_FULL = 6,         /* the engine has no room for a request now */
  MKRT_NO_MEMORY = 7,    /* of the host or of the device */
  MKRT_NO_DEVICE = 8,    /* the device is missing, or cannot run the artefact */
  MKRT_TIMEOUT = 9,      /* a wait inside the kernel outlasted its deadline; the session is finished */
  MKRT_FAULT = 10,       /* the device failed; the session is finished */
  MKRT_BUG = 11,         /* the library failed */
  MKRT_NOT_FINITE = 12   /* a request of an engine had no finite greatest logit; others go on */
} mkrt_status;

/* Returns the version, such as "0.1.0". Never fails. Threads: any. */
const char* mkrt_version(void);
/* mkrt_error returns what the last failed call of this thread found and expected; "" if none failed. The text
 * is valid until the thread's next call. mkrt_error_status returns that call's status. Threads: any. */
const char* mkrt_error(void);
mkrt_status mkrt_error_status(void);

/* Opens the GPU of an ordinal. Calls for it leave its context current (docs/c-abi.md). Threads: any. */
mkrt_device* mkrt_open_cuda(int ordinal);

/* Opens the processor of this machine. Device memory is memory of the process, and each worker is a thread.
 * The device has no streams: a step is done when mkrt_begin_step returns. Threads: any. */
mkrt_device* mkrt_open_processor(void);

/* Opens the emulator for a kernel compiled into this process (mkc's host code), and for the kernel that
 * packs weights. Both are called once for every GPU thread. `seed` sets the order of threads and copies; 0
 * means a fixed order. Threads: any. */
mkrt_device* mkrt_open_emulator(void (*kernel)(const void* session, const void* step),
                                void (*pack)(const void* pack, uint32_t workers, uint32_t threads),
                                uint64_t seed);

/* Opens the emulator for kernels of grids (--mode=kernels). `kernels` is indexed by kind, with NULL for
 * kinds without a kernel. Threads: any. */
mkrt_device* mkrt_open_emulator_kernels(
    void (*const* kernels)(const void* session, const void* step, uint32_t grid), uint32_t count,
    void (*pack)(const void* pack, uint32_t workers, uint32_t threads), uint64_t seed);

/* Returns a name such as "NVIDIA H100 …" or "cpu", which is valid as long as the device. Threads: any. */
const char* mkrt_device_name(const mkrt_device* device);

/* Nonzero `accept`: sessions opened on the device from now on may have artefacts that are not sealed, or
 * not certified as proved (docs/trust.md). Records out of bounds are refused all the same. A new device
 * refuses unsealed artefacts. Threads: one. */
mkrt_status mkrt_accept_unsealed(mkrt_device* device, int accept);

/* Keeps the packed weights of sessions that are opened from now on in files of a folder. Later sessions of
 * the same checkpoint map these files (docs/processor.md). The folder is made if it is missing. NULL, the
 * setting of a new device, keeps nothing. Weights that cannot be kept are packed again. Threads: one. */
mkrt_status mkrt_keep_weights(mkrt_device* device, const char* folder);

/* Closes the device, once calls of other threads for it have ended. Its sessions stay open. NULL, or a closed
 * device, has no effect. Threads: any. */
void mkrt_close_device(mkrt_device* device);

/* Loads an artefact, and the weights of the checkpoint it was compiled for (a Hugging Face directory), onto
 * a device. A device runs one artefact, in any number of sessions. Threads: one. */
mkrt_session* mkrt_open_session(mkrt_device* device, const char* artefact, const char* checkpoint);

/* Opens a session with manifest (JSON) and plan from memory. `image` has the bytes of the cubin or
 * shared object, or is NULL on the emulator. Threads: one. */
mkrt_session* mkrt_open_session_from_memory(mkrt_device* device, const char* manifest, size_t manifest_bytes,
                                            const void* plan, size_t plan_bytes, const void* image,
                                            size_t image_bytes, const char* checkpoint);

/* Closes the session, once calls of other threads for its device have ended. Its engine stays open. NULL, or
 * a closed session, has no effect. Threads: any. */
void mkrt_close_session(mkrt_session* session);

/* Return what never changes in a session. Threads: any. */
uint32_t mkrt_vocab(const mkrt_session* session);        /* ids are 0 to vocab - 1 */
uint32_t mkrt_max_tokens(const mkrt_session* session);   /* of one step */
uint32_t mkrt_max_requests(const mkrt_session* session); /* of one step */
uint32_t mkrt_context(const mkrt_session* session);      /* positions of a request */
uint32_t mkrt_caches(const mkrt_session* session); /* keys and values of every layer: twice the layers */

/* Returns how many tokens were fed so far. mkrt_error_status() then tells 0 from an error. Threads: one. */
uint32_t mkrt_position(const mkrt_session* session);

/* Goes back to `position`, at most the current one. Tokens fed behind it are forgotten. Threads: one. */
mkrt_status mkrt_rewind(mkrt_session* session, uint32_t position);

/* Feeds 1 to mkrt_max_tokens() tokens at the next positions. `logits` is NULL, or has room for count *
 * vocab floats, row by row. `next` is NULL, or receives the greedy successor of the last token. mkrt_finite
 * tells whether it has finite logits. Every step after a fault in the kernel fails. Threads: one. */
mkrt_status mkrt_step(mkrt_session* session, const int32_t* tokens, uint32_t count, float* logits,
                      int32_t* next);

/* How tokens are sampled (docs/sampling.md). */
typedef struct mkrt_sampling {
  uint32_t size;
  float repetition_penalty; /* 0.001 to 1000; 1: none */
  float temperature;        /* 0 to 1e6; 0: greedy */
  uint32_t top_k;           /* 0: all */
  float top_p;              /* above 0, at most 1; 1: all */
  float min_p;              /* 0 to 1; 0: all */
  uint64_t seed;
  uint32_t logprobs; /* 0: none; 1 + n: of the sampled token and of the n likeliest, n <= 20 */
  uint32_t position; /* tokens that the request has sampled before */
} mkrt_sampling;

/* Initialises an mkrt_sampling: greedy samples without log-probabilities. */
#define MKRT_GREEDY {(uint32_t)sizeof(mkrt_sampling), 1, 0, 0, 1, 0, 0, 0, 0}

/* The log-probabilities of a sampled token, and of the n likeliest tokens, the likeliest first. */
typedef struct mkrt_logprobs {
  float sampled;
  float top[20];
  uint32_t top_id[20];
  uint32_t rank; /* of the sampled token: how many logits are at least as great as its own */
} mkrt_logprobs;

/* A bias is added to one id's logit, before and after the repetition penalty. -INFINITY forbids the id.
 * Finite values are at most 1e30 in absolute value. */
typedef struct mkrt_bias {
  uint32_t id;
  float before;
  float after;
} mkrt_bias;

/* The tokens that one request samples. Each is sampled in its own step, which feeds the token before. The
 * last token is not fed. Sampling ends at a stop id or after `limit` tokens. Sampling also ends when the next
 * token's position is beyond the request's pages or the context. */
typedef struct mkrt_samples {
  uint32_t size;                 /* of a list of these structs, all have the same */
  uint32_t limit;                /* 0: none, because the prompt goes on in the next step */
  const mkrt_sampling* sampling; /* NULL: MKRT_GREEDY */
  const int32_t* stop_ids;       /* [stop_count] */
  const mkrt_bias* biases;       /* [bias_count], by ascending id; they hold for all samples of the launch */
  const uint32_t* seen;          /* with a repetition penalty: [ceil(vocab / 32)], bit id % 32 of word id / 32
                                  * for each id that it applies to; the launch adds its own samples itself */
  const uint32_t* allowed;       /* NULL, or laid out like `seen`: the ids that may be sampled */
  int32_t* ids;                  /* [limit], receives the tokens */
  mkrt_logprobs* logprobs;       /* [limit], receives what sampling->logprobs asks for */
  uint32_t logprobs_size;        /* sizeof(mkrt_logprobs); 0 without `logprobs` */
  uint32_t stop_count;
  uint32_t bias_count;
  uint32_t count;    /* receives the number of tokens sampled */
  uint32_t finite;   /* receives how many of them come before the first one without finite logits */
  uint32_t reserved; /* 0 */
} mkrt_samples;

/* Feeds tokens like mkrt_step, and samples the tokens that follow. The position is then behind all tokens
 * fed. Threads: one. */
mkrt_status mkrt_sample(mkrt_session* session, const int32_t* tokens, uint32_t count, mkrt_samples* samples);

/* Return the positions of a page of the cache, and the pages of the cache (docs/batches.md). Threads: one. */
uint32_t mkrt_page_size(const mkrt_session* session);
uint32_t mkrt_pages(const mkrt_session* session);

typedef enum mkrt_form {
  MKRT_NHD = 0,   /* a page is [position, head, element] */
  MKRT_HND = 1,   /* [head, position, element] */
  MKRT_PACKED = 2 /* [position, head, elements of the key and then of the value] */
} mkrt_form;

/* Makes a cache of the session's own with `pages` pages of page_size positions (16, 32 or 64). The
 * contents of the earlier cache are lost. A new session has a cache in MKRT_NHD, on a processor in
 * MKRT_HND, whose pages of 16 hold one request of the whole context. Threads: one. */
mkrt_status mkrt_make_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, mkrt_form form);

/* Uses the caller's cache in place. `base` has the device address of each of mkrt_caches() caches, layer
 * by layer, keys before values. Strides are in bytes, and the elements of a head are contiguous. The memory
 * must outlive the session, or stay until the session takes another cache. Threads: one. */
mkrt_status mkrt_use_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, uint64_t page_stride,
                           uint64_t position_stride, uint64_t head_stride, const uint64_t* base,
                           uint32_t caches);

/* Sets the scales of a cache of e4m3, one positive scale for each head of each cache. Keys and values are
 * stored divided by them. A new session has the checkpoint's, or 1. The position is 0 then. Threads: one. */
mkrt_status mkrt_use_scales(mkrt_session* session, const float* scales, uint32_t count);

/* A batch has the next tokens of several requests. Rows row_begin[b] to row_begin[b + 1] - 1 are request
 * b's, and the last of them has position kv_len[b] - 1. Request b's pages are page_index[page_begin[b]] to
 * page_index[page_begin[b + 1] - 1], in the order of its positions. */
typedef struct mkrt_batch {
  uint32_t size;
  uint32_t requests;
  const int32_t* tokens;     /* [row_begin[requests]]; -1 - b: what request b of the step before sampled */
  const int32_t* row_begin;  /* [requests + 1], from 0 */
  const int32_t* kv_len;     /* [requests] */
  const int32_t* page_begin; /* [requests + 1] */
  const int32_t* page_index; /* [page_begin[requests]] */
} mkrt_batch;

/* Runs one step of a batch. `next` is [requests], and receives the greedy successor of each request's last
 * row. `logits` is NULL, or has room for rows * vocab floats. Errors are those of mkrt_step; errors of the
 * batch name request and field. Threads: one. */
mkrt_status mkrt_step_batch(mkrt_session* session, const mkrt_batch* batch, float* logits, int32_t* next);

/* Runs steps of a batch with samples: [requests]. Threads: one. */
mkrt_status mkrt_sample_batch(mkrt_session* session, const mkrt_batch* batch, mkrt_samples* samples);

/* Gives mkrt_samples.finite for each request of the session's last step, also of a step without samples.
 * `finite` is [requests], the number of that step's requests (docs/c-abi.md). Threads: one. */
mkrt_status mkrt_finite(const mkrt_session* session, uint32_t* finite, uint32_t requests);

/* Copies the first bytes of a tensor of the last step, by the manifest's name ("l0.attended", float [rows,
 * columns]). Without --keep-activations, later tensors use the memory of earlier ones. Threads: one. */
mkrt_status mkrt_read_tensor(const mkrt_session* session, const char* name, void* to, size_t bytes);

/* Returns the stamps of the last launch of an artefact made with --trace, as JSON (docs/trace.md). The text
 * is valid until the next such call or the session's end. No step may be under way. Threads: one. */
const char* mkrt_trace(mkrt_session* session);

/* Sets the stream of all further steps of the session: a CUstream of the device's primary context. NULL is
 * the default stream, which a new session has, and the only one of a device that is no GPU. Sessions of one
 * device may have different streams. No step may be under way. Threads: one. */
mkrt_status mkrt_set_stream(mkrt_session* session, void* stream);

/* Sets the time after which a wait inside the kernel fails; 0: never. It is 10000 at first. Threads: one. */
mkrt_status mkrt_set_timeout(mkrt_session* session, uint32_t milliseconds);

/* mkrt_begin_step and mkrt_end_step are the two halves of a step of several requests. Up to two steps may
 * be under way, or one that samples more than one token for a request. mkrt_begin_step puts copies and
 * launch on the stream and does not wait. It allocates only for samples that need more memory than all
 * before. Arguments may be freed after it. `samples` is [requests], or NULL: one greedy token for each.
 * mkrt_end_step waits for the oldest step. `next` is NULL, or [requests], and receives the last token of
 * each request, or -1 where none was sampled. `samples` is NULL, or the [requests] of mkrt_begin_step, with
 * `sampling` as it was then. Errors, also faults, are those of mkrt_sample_batch. Threads: one. */
mkrt_status mkrt_begin_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples);
mkrt_status mkrt_end_step(mkrt_session* session, int32_t* next, mkrt_samples* samples);

/* mkrt_capture_step puts a step into the graph that is captured on the session's stream. The graph serves
 * any batch whose requests sample no more than `max`, with no more biases. NULL means one token each, without
 * log-probabilities. Other samples take memory, which a relaxed capture allows. Each run needs
 * mkrt_fill_step, the graph on the stream, and mkrt_end_step. The session keeps its cache. Threads: one. */
mkrt_status mkrt_capture_step(mkrt_session* session, const mkrt_samples* max);
mkrt_status mkrt_fill_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples);

/* Returns the device address of the last step's logits, float [requests, vocab]: of each request's last
 * row. The logits are valid until the next step begins on the stream. Threads: one. */
uint64_t mkrt_logits(const mkrt_session* session);

/* An engine batches continuously: requests join and leave between launches (docs/engine.md). */
typedef enum mkrt_preemption {
  MKRT_NO_PREEMPTION = 0, /* a request that runs never gives up its pages */
  MKRT_RECOMPUTE = 1      /* the last request gives up its pages for others, and is fed again later */
} mkrt_preemption;

typedef struct mkrt_engine_options {
  uint32_t size;
  uint32_t preemption;              /* an mkrt_preemption */
  uint32_t prefix_cache;            /* nonzero: requests share the pages of equal prefixes */
  uint32_t max_rows_beside_decodes; /* rows of prompts in a step that also decodes; 0: no bound */
  uint32_t steps_per_launch;        /* most steps that the kernel makes by itself, up to 4096; 0: 1 */
  uint32_t max_waiting;             /* most requests that wait, beyond which one is MKRT_FULL; 0: no bound */
  uint32_t page_size;               /* 16, 32 or 64; not read without `pages` */
  uint32_t pages;                   /* of a new cache of the session's own; 0: the session's cache as it is */
  const int32_t* stop_ids;          /* [stop_count]; each ends a request that does not ignore them */
  uint32_t stop_count;
  uint32_t reserved; /* 0 */
} mkrt_engine_options;

/* Opens an engine over a session. `options` is NULL, or may be freed after the call. Until the engine is
 * closed, calls that feed the session or change its cache fail with MKRT_OUT_OF_ORDER. No step may be under
 * way. The engine uses the session's stream and cache, also the caller's. What the session was fed before is
 * forgotten, and its position is 0. Threads: one. */
mkrt_engine* mkrt_open_engine(mkrt_session* session, const mkrt_engine_options* options);

/* Closes the engine, once calls of other threads for its device have ended, and drops its requests. The
 * session is free again. NULL, or a closed engine, has no effect. Threads: any. */
void mkrt_close_engine(mkrt_engine* engine);

typedef struct mkrt_logit_bias {
  int32_t id;
  float value; /* added to the logit; at most 1e30 in absolute value, or -INFINITY, which forbids the id */
} mkrt_logit_bias;

typedef struct mkrt_request {
  uint32_t size;
  uint32_t prompt_count;
  const int32_t* prompt;             /* [prompt_count] */
  const mkrt_sampling* sampling;     /* NULL: MKRT_GREEDY; `position` is that of the first sample */
  const int32_t* stop_ids;           /* [stop_count]; each ends the request, in addition to the engine's */
  const mkrt_logit_bias* logit_bias; /* [bias_count], at most one for an id */
  const int32_t* allowed_ids;        /* [allowed_count]; all other ids are forbidden; none: no id is */
  const char* name;                  /* begins the errors of the request; NULL: "request ID" */
  uint32_t stop_count;
  uint32_t bias_count;
  uint32_t allowed_count;
  uint32_t max_new_tokens;      /* 1 or more */
  uint32_t min_new_tokens;      /* before which stop ids are forbidden, the engine's included */
  float presence_penalty;       /* -2 to 2; taken off the logit of each id that the request has sampled */
  float frequency_penalty;      /* -2 to 2; taken off as often as the id was sampled */
  int32_t priority;             /* a smaller number runs earlier; equal ones first come, first served */
  uint32_t stream;              /* nonzero: mkrt_take_progress hands out its tokens as they come */
  uint32_t ignore_engine_stops; /* nonzero: only the request's own stop ids end it */
  uint64_t arrive_at_step;      /* the step before which it joins, below 2^63; a past step: now */
} mkrt_request;

/* Hands a request to the engine. `id` receives its number: 0, 1, … The request may be freed after the call. A
 * request that can never run has an outcome with its error at once. A list with more entries than the
 * context, for a prompt, or than ids is not read: MKRT_BAD_ARGUMENT. Threads: one. */
mkrt_status mkrt_submit(mkrt_engine* engine, const mkrt_request* request, uint64_t* id);

/* Ends a request, whose outcome has its tokens so far. One that has ended is an error. Threads: one. */
mkrt_status mkrt_cancel(mkrt_engine* engine, uint64_t id);

/* Runs one launch for the requests that have arrived. The call has no effect without requests, and waits for
 * its end. An error ends all requests and every later one. Threads: one. */
mkrt_status mkrt_advance(mkrt_engine* engine);

/* New tokens of a request with `stream`. They are in its outcome, too. */
typedef struct mkrt_progress {
  uint32_t size;
  uint32_t logprobs_size; /* set by the caller: sizeof(mkrt_logprobs); 0: none are wanted */
  uint64_t request;
  const int32_t* ids;            /* [count] */
  const mkrt_logprobs* logprobs; /* [count], or NULL where the request asked for none */
  uint32_t count;                /* 0: there is no more progress */
  uint32_t top_count;            /* entries of `top` and `top_id` of each of `logprobs` */
} mkrt_progress;

/* Takes the oldest progress. Its pointers are valid until the engine's next such call. Threads: one. */
mkrt_status mkrt_take_progress(mkrt_engine* engine, mkrt_progress* progress);

typedef enum mkrt_finish_reason {
  MKRT_UNFINISHED = 0, /* no request has finished */
  MKRT_STOP = 1,       /* at a stop id, which is the last of its tokens */
  MKRT_LENGTH = 2,     /* at max_new_tokens */
  MKRT_ERROR = 3,
  MKRT_CANCELLED = 4
} mkrt_finish_reason;

typedef struct mkrt_outcome {
  uint32_t size;
  uint32_t logprobs_size; /* set by the caller, as in mkrt_progress */
  uint64_t request;
  uint32_t reason;               /* an mkrt_finish_reason */
  uint32_t status;               /* an mkrt_status; MKRT_OK unless the reason is MKRT_ERROR */
  const char* error;             /* "" without one */
  const int32_t* ids;            /* [count], all new tokens */
  const mkrt_logprobs* logprobs; /* [count], or NULL where the request asked for none */
  uint32_t count;
  uint32_t top_count;     /* as in mkrt_progress */
  uint32_t cached_tokens; /* of the prompt, which the prefix cache had */
  uint32_t reserved;
} mkrt_outcome;

/* Takes the outcome of the request that finished first, or one with MKRT_UNFINISHED. Its pointers are valid
 * until the engine's next such call. Threads: one. */
mkrt_status mkrt_take_outcome(mkrt_engine* engine, mkrt_outcome* outcome);

/* The stats of an engine are its state now, and counts since it was opened. */
typedef struct mkrt_engine_stats {
  uint32_t size;
  uint32_t running;    /* requests now */
  uint32_t waiting;    /* requests now, those that arrive later included */
  uint32_t pages;      /* of the cache */
  uint32_t pages_used; /* those that running requests have now, each counted once */
  uint32_t reserved;
  uint64_t clock; /* number of the next step */
  uint64_t launches;
  uint64_t steps;
  uint64_t rows;
  uint64_t preemptions;
  uint64_t prefix_queries; /* tokens of prompts that were looked up in the prefix cache */
  uint64_t prefix_hits;    /* of these, the ones that the prefix cache had */
} mkrt_engine_stats;

/* Threads: one. */
mkrt_status mkrt_stats(mkrt_engine* engine, mkrt_engine_stats* stats);

#ifdef __cplusplus
}
#endif
#endif
