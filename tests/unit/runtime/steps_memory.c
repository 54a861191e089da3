/* Counts the allocations of the whole process in decode steps of mkrt_begin_step and mkrt_end_step. This
 * program's malloc takes the place of the C library's, also for libmkrt.so. Usage: steps_memory ARTEFACT
 * CHECKPOINT. Prints allocations while opening, in the first step, and in 200 later ones. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/c_api/mkrt.h"

#define REQUESTS 4
#define PROMPT 5
#define STEPS 200

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

static atomic_ulong allocations;

void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  ++allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : 12;
}

/* Requests of 32 pages each. Greedy ones alternate with warm ones that have a bias and log-probabilities. */
static int32_t tokens[REQUESTS * PROMPT], next[REQUESTS], row_begin[REQUESTS + 1], kv_len[REQUESTS];
static int32_t page_begin[REQUESTS + 1], page_index[REQUESTS * 32], ids[REQUESTS];
static mkrt_logprobs logprobs[REQUESTS];
static mkrt_samples samples[REQUESTS];

static int step(mkrt_session* session, uint32_t rows) {
  const mkrt_batch batch = {sizeof batch, REQUESTS, tokens, row_begin, kv_len, page_begin, page_index};
  for (int32_t b = 0; b <= REQUESTS; ++b) row_begin[b] = b * (int32_t)rows;
  for (int b = 0; b < REQUESTS; ++b) kv_len[b] += (int32_t)rows;
  if (mkrt_begin_step(session, &batch, samples) || mkrt_end_step(session, next, samples)) return 1;
  memcpy(tokens, next, sizeof next);
  return 0;
}

int main(int argc, char** argv) {
  static const mkrt_bias bias = {7, 0.5f, 0};
  static mkrt_sampling warm = MKRT_GREEDY;
  if (argc != 3) return 2;
  warm.temperature = 0.8f;
  warm.logprobs = 1 + 3;
  for (int32_t b = 0; b < REQUESTS; ++b) {
    const mkrt_samples plain = {.size = sizeof plain, .limit = 1, .ids = &ids[b]};
    samples[b] = plain;
    page_begin[b + 1] = (b + 1) * 32;
    if (b % 2 == 0) continue;
    samples[b].sampling = &warm;
    samples[b].biases = &bias;
    samples[b].bias_count = 1;
    samples[b].logprobs = &logprobs[b];
    samples[b].logprobs_size = sizeof logprobs[b];
  }
  for (int32_t i = 0; i < REQUESTS * 32; ++i) page_index[i] = i;
  for (int32_t i = 0; i < REQUESTS * PROMPT; ++i) tokens[i] = 5 + i;

  mkrt_device* device = mkrt_open_processor();
  mkrt_session* session = device ? mkrt_open_session(device, argv[1], argv[2]) : NULL;
  int failed = !session || mkrt_make_cache(session, 16, REQUESTS * 32, MKRT_NHD);
  const unsigned long opened = allocations;
  failed = failed || step(session, PROMPT);
  const unsigned long fed = allocations;
  for (int i = 0; i < STEPS && !failed; ++i) failed = step(session, 1);
  if (failed)
    fprintf(stderr, "%s\n", mkrt_error());
  else
    printf("%d %d %lu\n", opened > 0, fed > opened, allocations - fed);
  mkrt_close_session(session);
  mkrt_close_device(device);
  return failed;
}
