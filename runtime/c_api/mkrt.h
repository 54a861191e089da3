/* The C interface of libmkrt: load an artefact that mkc made, bind a checkpoint, run steps
 * (docs/c-abi.md). An artefact is a cubin for a GPU, or a shared object for a processor.
 *
 * Every function may fail. A failed call returns NULL or a nonzero result, and mkrt_error() says why. No
 * function throws, aborts or prints. NULL arguments and closed handles are errors, unless a function says
 * otherwise.
 *
 * Handles are not thread-safe. Different threads may use different handles, but one thread at a time may
 * use the sessions of one device. */
#ifndef MKRT_H
#define MKRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mkrt_device mkrt_device;
typedef struct mkrt_session mkrt_session;

/* Returns "0.1.0". Never fails. */
const char* mkrt_version(void);

/* Returns what the last failed call of this thread found and expected; "" if none failed. The text is
 * valid until the thread's next call. */
const char* mkrt_error(void);

/* Opens the GPU of an ordinal, by the CUDA driver. */
mkrt_device* mkrt_open_cuda(int ordinal);

/* Opens the processor of this machine. Device memory is memory of the process, and each worker is a
 * thread. The device has no streams: a step is done when mkrt_begin_step returns. */
mkrt_device* mkrt_open_processor(void);

/* Opens the emulator for a kernel compiled into this process (mkc's host code), and for the kernel that
 * packs weights. Both are called once for every GPU thread. `seed` sets the order of threads and copies; 0
 * means a fixed order. */
mkrt_device* mkrt_open_emulator(void (*kernel)(const void* session, const void* step),
                                void (*pack)(const void* pack, uint32_t workers, uint32_t threads),
                                uint64_t seed);

/* Opens the emulator for kernels of grids (--mode=kernels). `kernels` is indexed by kind, with NULL for
 * kinds without a kernel. */
mkrt_device* mkrt_open_emulator_kernels(
    void (*const* kernels)(const void* session, const void* step, uint32_t grid), uint32_t count,
    void (*pack)(const void* pack, uint32_t workers, uint32_t threads), uint64_t seed);

/* Returns a name such as "NVIDIA H100 …", "cpu" or "emulator". The name is valid as long as the device. */
const char* mkrt_device_name(const mkrt_device* device);

/* Nonzero `accept`: sessions opened on the device from now on may have artefacts that are not sealed, or
 * not certified as proved (docs/trust.md). Records out of bounds are refused all the same. A new device
 * refuses unsealed artefacts. */
int mkrt_accept_unsealed(mkrt_device* device, int accept);

/* Sessions opened on the device from now on keep their packed weights in files of a folder, and later
 * sessions of the same checkpoint map these files (docs/processor.md). The folder is made if it is missing.
 * NULL, the setting of a new device, keeps nothing. Weights that cannot be kept are no error: each session
 * packs them again. */
int mkrt_keep_weights(mkrt_device* device, const char* folder);

/* Closes the device. Open sessions of the device stay open. NULL, or a closed device, has no effect. */
void mkrt_close_device(mkrt_device* device);

/* Loads an artefact, and the weights of the checkpoint it was compiled for (a Hugging Face directory), onto
 * a device. A device runs one artefact, in any number of sessions. */
mkrt_session* mkrt_open_session(mkrt_device* device, const char* artefact, const char* checkpoint);

/* Opens a session with manifest (JSON) and plan from memory. `image` has the bytes of the cubin or
 * shared object, or is NULL on the emulator. */
mkrt_session* mkrt_open_session_from_memory(mkrt_device* device, const char* manifest, size_t manifest_bytes,
                                            const void* plan, size_t plan_bytes, const void* image,
                                            size_t image_bytes, const char* checkpoint);

/* Closes the session. NULL, or a closed session, has no effect. */
void mkrt_close_session(mkrt_session* session);

uint32_t mkrt_vocab(const mkrt_session* session);      /* ids are 0 to vocab - 1 */
uint32_t mkrt_max_tokens(const mkrt_session* session); /* of one step */
uint32_t mkrt_context(const mkrt_session* session);    /* positions of a request */
uint32_t mkrt_position(const mkrt_session* session);   /* tokens fed so far */

/* Goes back to `position`, at most the current one. Tokens fed at later positions are forgotten. */
int mkrt_rewind(mkrt_session* session, uint32_t position);

/* Feeds 1 to mkrt_max_tokens() tokens at the next positions. `logits` is NULL, or has room for count *
 * vocab floats, row by row. `next` is NULL, or receives the greedy successor of the last token.
 *
 * Nothing has changed after bad arguments. Every further step fails after a fault in the kernel. */
int mkrt_step(mkrt_session* session, const int32_t* tokens, uint32_t count, float* logits, int32_t* next);

/* Samples, and several steps in one launch (docs/sampling.md). */

typedef struct mkrt_sampling {
  float repetition_penalty; /* 0.001 to 1000; 1: none */
  float temperature;        /* 0 to 1e6; 0: greedy */
  uint32_t top_k;           /* 0: all */
  float top_p;              /* above 0, at most 1; 1: all */
  float min_p;              /* 0 to 1; 0: all */
  uint32_t logprobs;        /* 0: none; 1 + n: of the sampled token and of the n likeliest, n <= 20 */
  uint64_t seed;
  uint32_t position; /* tokens that the request has sampled before */
  uint32_t reserved; /* 0 */
} mkrt_sampling;

/* Returns the settings of greedy samples without log-probabilities. Never fails. */
mkrt_sampling mkrt_greedy(void);

/* The log-probabilities of a sampled token, and of the n likeliest tokens, the likeliest first. */
typedef struct mkrt_logprobs {
  float sampled;
  uint32_t rank; /* of the sampled token: how many logits are at least as great as its own */
  float top[20];
  uint32_t top_id[20];
} mkrt_logprobs;

/* What is added to one id's logit, before and after the repetition penalty. -INFINITY forbids the id. Finite
 * values are at most 1e30 in absolute value. */
typedef struct mkrt_bias {
  uint32_t id;
  float before;
  float after;
} mkrt_bias;

/* The tokens that one request samples. Each is sampled in its own step, which feeds the token before. The
 * last token is not fed.
 *
 * Sampling ends at a stop id or after `limit` tokens. Sampling also ends when the next token's position is
 * beyond the request's pages or the context. */
typedef struct mkrt_samples {
  mkrt_sampling sampling;
  const int32_t* stop_ids; /* [stops] */
  const uint32_t* seen;    /* with a repetition penalty: [ceil(vocab / 32)], bit id % 32 of word id / 32
                            * for each id that it applies to; the launch adds its own samples itself */
  int32_t* ids;            /* [limit], receives the tokens */
  mkrt_logprobs* logprobs; /* [limit], receives what sampling.logprobs asks for */
  uint32_t stops;
  uint32_t limit; /* 0: none, because the prompt goes on in the next step */
  uint32_t count; /* receives the number of tokens sampled */
  uint32_t bias_count;
  const mkrt_bias* biases; /* [bias_count], by ascending id; they hold for all samples of the launch */
  const uint32_t* allowed; /* NULL, or laid out like `seen`: the ids that may be sampled */
} mkrt_samples;

/* Feeds tokens like mkrt_step, and samples the tokens that follow. The position is then behind all tokens
 * fed. */
int mkrt_sample(mkrt_session* session, const int32_t* tokens, uint32_t count, mkrt_samples* samples);

/* Steps of several requests (docs/batches.md). */

uint32_t mkrt_max_requests(const mkrt_session* session); /* of one step */
uint32_t mkrt_page_size(const mkrt_session* session);    /* positions of a page of the cache */
uint32_t mkrt_pages(const mkrt_session* session);        /* of the cache */
uint32_t mkrt_caches(const mkrt_session* session); /* keys and values of every layer: twice the layers */

typedef enum mkrt_form {
  MKRT_NHD = 0,   /* a page is [position, head, element] */
  MKRT_HND = 1,   /* [head, position, element] */
  MKRT_PACKED = 2 /* [position, head, elements of the key and then of the value] */
} mkrt_form;

/* Makes a cache of the session's own with `pages` pages of page_size positions (16, 32 or 64). The
 * contents of the earlier cache are lost. A new session has a cache in MKRT_NHD, whose pages of 16 hold
 * one request of the whole context. */
int mkrt_make_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, mkrt_form form);

/* Uses the caller's cache in place. `base` has the device address of each of mkrt_caches() caches, layer
 * by layer, keys before values. Strides are in bytes, and the elements of a head are contiguous.
 *
 * The memory must outlive the session, or stay until another call of mkrt_make_cache or mkrt_use_cache. */
int mkrt_use_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, uint64_t page_stride,
                   uint64_t position_stride, uint64_t head_stride, const uint64_t* base, uint32_t caches);

/* Sets the scales of a cache of e4m3, one positive scale for each head of each of mkrt_caches() caches.
 * The cache stores a key or value divided by its head's scale. A new session has the checkpoint's scales,
 * or 1 where it has none. */
int mkrt_use_scales(mkrt_session* session, const float* scales, uint32_t count);

/* A batch has the next tokens of several requests. Rows row_begin[b] to row_begin[b + 1] - 1 are request
 * b's, and the last of them has position kv_len[b] - 1. Request b's pages are page_index[page_begin[b]] to
 * page_index[page_begin[b + 1] - 1], in the order of its positions. */
typedef struct mkrt_batch {
  const int32_t* tokens;     /* [row_begin[requests]]; -1 - b: what request b of the step before sampled */
  const int32_t* row_begin;  /* [requests + 1], from 0 */
  const int32_t* kv_len;     /* [requests] */
  const int32_t* page_begin; /* [requests + 1] */
  const int32_t* page_index; /* [page_begin[requests]] */
  uint32_t requests;
} mkrt_batch;

/* Runs one step of a batch. `next` is [requests], and receives the greedy successor of each request's last
 * row. `logits` is NULL, or has room for rows * vocab floats. Errors are those of mkrt_step; errors of the
 * batch name request and field. */
int mkrt_step_batch(mkrt_session* session, const mkrt_batch* batch, float* logits, int32_t* next);

/* Runs steps of a batch with samples: [requests]. */
int mkrt_sample_batch(mkrt_session* session, const mkrt_batch* batch, mkrt_samples* samples);

/* Copies the first bytes of a tensor of the last step, by the manifest's name ("l0.attended", float [rows,
 * columns]). Each tensor of an artefact made with --keep-activations has memory of its own. Otherwise
 * later tensors use the memory of earlier ones. */
int mkrt_read_tensor(const mkrt_session* session, const char* name, void* to, size_t bytes);

/* Returns the stamps of the last launch of an artefact made with --trace, as JSON for mkc trace
 * (docs/trace.md). The text is valid until the next call of this function, or until the session is closed.
 * No step may be under way. */
const char* mkrt_trace(mkrt_session* session);

/* Steps on a stream of the caller's (docs/c-abi.md). */

/* Sets the stream of all further steps of the session: a CUstream of the device's primary context. NULL is
 * the default stream, which a new session has. Sessions of one device may have different streams. No step
 * may be under way. */
int mkrt_set_stream(mkrt_session* session, void* stream);

/* Sets the time after which a wait inside the kernel is a fault; 0: never. A new session has 10000. */
int mkrt_set_timeout(mkrt_session* session, uint32_t milliseconds);

/* mkrt_begin_step and mkrt_end_step are the two parts of a step of several requests. Up to two steps may
 * be under way, or one that samples more than one token for a request.
 *
 * mkrt_begin_step puts copies and launch on the stream and does not wait. The call allocates only for
 * samples that need more memory than all before. The arguments may be freed after the call. `samples` is
 * [requests], or NULL: each request samples one token greedily.
 *
 * mkrt_end_step waits for the oldest step. `next` is NULL, or [requests], and receives the last token of
 * each request, or -1 where none was sampled. `samples` is NULL, or the [requests] of mkrt_begin_step.
 * Errors, also faults, are those of mkrt_sample_batch. */
int mkrt_begin_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples);
int mkrt_end_step(mkrt_session* session, int32_t* next, mkrt_samples* samples);

/* mkrt_capture_step puts a step into the graph that is captured on the session's stream. The graph serves
 * any batch whose requests sample no more than `max`, with no more biases. NULL means one token each, without
 * log-probabilities. Other samples take memory, which a relaxed capture allows.
 *
 * Each run of the graph needs mkrt_fill_step, the graph on the session's stream, and mkrt_end_step. The
 * session cannot take another cache after a capture. */
int mkrt_capture_step(mkrt_session* session, const mkrt_samples* max);
int mkrt_fill_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples);

/* Returns the device address of the last step's logits, float [requests, vocab]: of each request's last
 * row. The logits are valid until the next step begins on the stream. */
uint64_t mkrt_logits(const mkrt_session* session);

#ifdef __cplusplus
}
#endif
#endif
