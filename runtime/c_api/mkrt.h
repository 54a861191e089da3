/* The C interface of libmkrt: load a cubin that mkc made, bind a checkpoint, run steps. docs/c-abi.md.
 *
 * Every function may fail: pointers are then NULL and results nonzero, and mkrt_error() says why. Nothing
 * throws, aborts or prints. NULL is an error wherever nothing else is said, and so is a handle that is
 * closed. Handles are not thread-safe; different handles may be used by different threads, sessions of one
 * device by one thread at a time. */
#ifndef MKRT_H
#define MKRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mkrt_device mkrt_device;
typedef struct mkrt_session mkrt_session;

/* "0.1.0". Never fails. */
const char* mkrt_version(void);

/* What the last failed call of this thread found and expected; "" if none failed. Valid until the next call.
 */
const char* mkrt_error(void);

/* The GPU of an ordinal, by the CUDA driver. */
mkrt_device* mkrt_open_cuda(int ordinal);

/* The emulator, for a kernel compiled into this process (mkc's host code), and the one that packs weights;
 * both are called once for every GPU thread. seed: order of threads and copies; 0: fixed. */
mkrt_device* mkrt_open_emulator(void (*kernel)(const void* session, const void* step),
                                void (*pack)(const void* pack, uint32_t workers, uint32_t threads),
                                uint64_t seed);

/* The same for kernels of grids (--mode=kernels), by kind, NULL where a kind has none. */
mkrt_device* mkrt_open_emulator_kernels(
    void (*const* kernels)(const void* session, const void* step, uint32_t grid), uint32_t count,
    void (*pack)(const void* pack, uint32_t workers, uint32_t threads), uint64_t seed);

/* "NVIDIA H100 …", "emulator". Valid as long as the device. */
const char* mkrt_device_name(const mkrt_device* device);

/* accept nonzero: sessions that are opened on the device from now on may be of artefacts that are not sealed,
 * or not certified as proved (docs/trust.md). Records out of bounds are refused all the same. A new device
 * accepts none. */
int mkrt_accept_unsealed(mkrt_device* device, int accept);

/* Sessions of the device that are open stay so. NULL, or a device that is closed already: nothing happens. */
void mkrt_close_device(mkrt_device* device);

/* Loads a cubin and the weights of the checkpoint it was compiled for (a Hugging Face directory) onto a
 * device. */
mkrt_session* mkrt_open_session(mkrt_device* device, const char* cubin, const char* checkpoint);

/* The same with manifest (JSON) and plan from memory; image: the cubin's bytes, or NULL on the emulator. */
mkrt_session* mkrt_open_session_from_memory(mkrt_device* device, const char* manifest, size_t manifest_bytes,
                                            const void* plan, size_t plan_bytes, const void* image,
                                            size_t image_bytes, const char* checkpoint);

/* NULL, or a session that is closed already: nothing happens. */
void mkrt_close_session(mkrt_session* session);

uint32_t mkrt_vocab(const mkrt_session* session);      /* ids are 0 to vocab - 1 */
uint32_t mkrt_max_tokens(const mkrt_session* session); /* of one step */
uint32_t mkrt_context(const mkrt_session* session);    /* positions that the cache holds */
uint32_t mkrt_position(const mkrt_session* session);   /* tokens fed so far */

/* Goes back to `position`, at most the current one: what was fed behind it is forgotten. */
int mkrt_rewind(mkrt_session* session, uint32_t position);

/* Feeds 1 to mkrt_max_tokens() tokens at the positions that follow.
 * logits: NULL, or room for count * vocab floats, row by row. next: NULL, or gets the greedy successor of the
 * last token. After bad arguments nothing has changed; after a fault in the kernel every further step fails.
 */
int mkrt_step(mkrt_session* session, const int32_t* tokens, uint32_t count, float* logits, int32_t* next);

/* Samples, and several steps in one launch (docs/sampling.md). */

typedef struct mkrt_sampling {
  float repetition_penalty; /* 0.001 to 1000; 1: none */
  float temperature;        /* 0 to 1e6; 0: greedy */
  uint32_t top_k;           /* 0: all */
  float top_p;              /* above 0, at most 1: all */
  float min_p;              /* 0 (all) to 1 */
  uint32_t logprobs;        /* 0: none; 1 + n: of the token sampled and of the n likeliest, n <= 20 */
  uint64_t seed;
  uint32_t position; /* tokens that the request has sampled before */
  uint32_t reserved; /* 0 */
} mkrt_sampling;

/* Greedy samples without log-probabilities. Never fails. */
mkrt_sampling mkrt_greedy(void);

/* Of a token sampled, and of the n likeliest, the likeliest first. */
typedef struct mkrt_logprobs {
  float sampled;
  float top[20];
  uint32_t top_id[20];
} mkrt_logprobs;

/* Tokens that one request samples, each in a step of its own that feeds the one before: until one is a stop
 * id, there are `limit`, or the next one's position is beyond the request's pages or the context. The last
 * one is not fed. */
typedef struct mkrt_samples {
  mkrt_sampling sampling;
  const int32_t* stop_ids; /* [stops] */
  const uint32_t* seen;    /* with a repetition penalty: [ceil(vocab / 32)], bit id % 32 of word id / 32 for
                              each id that it applies to; what a launch samples it adds for itself */
  int32_t* ids;            /* [limit], gets the tokens */
  mkrt_logprobs* logprobs; /* [limit], gets what sampling.logprobs asks for */
  uint32_t stops;
  uint32_t limit; /* 0: none, as the prompt goes on in the next step */
  uint32_t count; /* gets how many were sampled */
  uint32_t reserved;
} mkrt_samples;

/* As mkrt_step, and samples what follows the last token. The position is then behind all that was fed. */
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

/* A cache of the session's own with so many pages of page_size positions (16, 32 or 64). The one before is
 * forgotten. A new session has one in MKRT_NHD whose pages of 16 hold one request of the whole context. */
int mkrt_make_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, mkrt_form form);

/* The caller's cache, used where it lies. base: the device address of each of mkrt_caches() caches, layer by
 * layer, keys before values. Strides in bytes; the elements of a head lie together. The memory must outlive
 * the session or the next call of these two. */
int mkrt_use_cache(mkrt_session* session, uint32_t page_size, uint32_t pages, uint64_t page_stride,
                   uint64_t position_stride, uint64_t head_stride, const uint64_t* base, uint32_t caches);

/* Scales of a cache of e4m3, which stores a key or value divided by its head's: one for each head of each of
 * mkrt_caches() caches, positive. A new session has the checkpoint's, or 1 where it has none. */
int mkrt_use_scales(mkrt_session* session, const float* scales, uint32_t count);

/* Rows row_begin[b] to row_begin[b + 1] - 1 are the next tokens of request b, at the positions up to
 * kv_len[b] - 1; its pages are page_index[page_begin[b]] and so on, in the order of its positions. */
typedef struct mkrt_batch {
  const int32_t* tokens;     /* [row_begin[requests]] */
  const int32_t* row_begin;  /* [requests + 1], from 0 */
  const int32_t* kv_len;     /* [requests] */
  const int32_t* page_begin; /* [requests + 1] */
  const int32_t* page_index; /* [page_begin[requests]] */
  uint32_t requests;
} mkrt_batch;

/* next: [requests], gets the greedy successor of each request's last row. logits: NULL, or room for rows *
 * vocab floats. Errors as of mkrt_step; those of the batch name request and field. */
int mkrt_step_batch(mkrt_session* session, const mkrt_batch* batch, float* logits, int32_t* next);

/* The same with samples: [requests]. */
int mkrt_sample_batch(mkrt_session* session, const mkrt_batch* batch, mkrt_samples* samples);

/* Copies the first bytes of a tensor of the last step, by the manifest's name ("l0.attended", float [rows,
 * columns]). Of a cubin made with --keep-activations each has memory of its own; else later ones lie in the
 * memory of earlier ones. */
int mkrt_read_tensor(const mkrt_session* session, const char* name, void* to, size_t bytes);

/* What the workers did when in the last launch of a cubin made with --trace: JSON, for mkc trace
 * (docs/trace.md). Valid until the next call of this function, or the session is closed. No step may be under
 * way. */
const char* mkrt_trace(mkrt_session* session);

/* Steps on a stream of the caller's (docs/c-abi.md). */

/* stream: a CUstream of the device's primary context, for all steps of the session from now on; NULL, as in a
 * new session: the default one. Sessions of one device may have streams of their own. No step may be under
 * way. */
int mkrt_set_stream(mkrt_session* session, void* stream);

/* A wait inside the kernel that lasts longer is a fault; 0: it never is. A new session has 10000. */
int mkrt_set_timeout(mkrt_session* session, uint32_t milliseconds);

/* A step of several requests in two parts, with up to two under way, or one that samples more than one token.
 * The first call puts copies and launch on the stream and returns; it waits for nothing, allocates only for
 * samples that need more memory than any before, and needs its arguments no longer. samples: [requests], or
 * NULL: each samples one token greedily. The second call waits for the oldest step. next: NULL, or
 * [requests], gets the last token of each, -1 where none was sampled; samples: NULL, or [requests] as before.
 * Errors, faults too, as of mkrt_sample_batch.
 */
int mkrt_begin_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples);
int mkrt_end_step(mkrt_session* session, int32_t* next, mkrt_samples* samples);

/* While the session's stream is being captured: puts a step into the graph. The graph serves any batch whose
 * requests sample no more than `max` (NULL: one token each, without log-probabilities; anything else takes
 * memory, which a relaxed capture allows). For each run of the graph: mkrt_fill_step, the graph on the
 * session's stream, mkrt_end_step. The session then keeps its cache. */
int mkrt_capture_step(mkrt_session* session, const mkrt_samples* max);
int mkrt_fill_step(mkrt_session* session, const mkrt_batch* batch, const mkrt_samples* samples);

/* Device address of the last step's logits, float [requests, vocab]: of each request's last row, until the
 * next step begins on the stream. */
uint64_t mkrt_logits(const mkrt_session* session);

#ifdef __cplusplus
}
#endif
#endif
