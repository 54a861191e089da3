/* Serves several requests at once on the processor (docs/c-abi.md).
 *
 *   mkc compile models/tiny-stories --target x86-64 -o model.so
 *   cc -std=c11 serve_requests.c -lmkrt -o serve_requests
 *   ./serve_requests model.so models/tiny-stories */
#include <inttypes.h>
#include <stdio.h>

#include "mkrt.h"

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof((list)[0])))

static const int32_t kStory[] = {0, 359, 336, 298, 260, 330, 278, 418, 15};
static const int32_t kEnd[] = {1};

/* Four requests: the likeliest tokens as they come, a warm sample, one that runs first, and one that is cut.
 */
static mkrt_status submit_all(mkrt_engine* engine) {
  mkrt_sampling warm = MKRT_GREEDY;
  mkrt_request request = {.size = sizeof request, .prompt_count = COUNT(kStory), .prompt = kStory};
  uint64_t id = 0;
  mkrt_status status;

  request.max_new_tokens = 12;
  request.stream = 1;
  if ((status = mkrt_submit(engine, &request, &id))) return status;

  warm.temperature = 0.8f;
  warm.seed = 7;
  warm.logprobs = 1 + 2; /* of the sampled token and of the two likeliest */
  request.sampling = &warm;
  request.stream = 0;
  if ((status = mkrt_submit(engine, &request, &id))) return status;

  request.sampling = NULL;
  request.priority = -1;
  request.max_new_tokens = 4;
  if ((status = mkrt_submit(engine, &request, &id))) return status;

  request.priority = 0;
  request.max_new_tokens = 400;
  return mkrt_submit(engine, &request, &id);
}

static mkrt_status print_progress(mkrt_engine* engine) {
  mkrt_progress progress = {.size = sizeof progress};
  mkrt_status status;
  while (!(status = mkrt_take_progress(engine, &progress)) && progress.count > 0) {
    printf("request %" PRIu64 " goes on:", progress.request);
    for (uint32_t i = 0; i < progress.count; ++i) printf(" %" PRId32, progress.ids[i]);
    printf("\n");
  }
  return status;
}

static mkrt_status print_outcomes(mkrt_engine* engine) {
  static const char* const kReasons[] = {"", "stop", "length", "error", "cancelled"};
  mkrt_outcome outcome = {.size = sizeof outcome, .logprobs_size = sizeof(mkrt_logprobs)};
  mkrt_status status;
  while (!(status = mkrt_take_outcome(engine, &outcome)) && outcome.reason != MKRT_UNFINISHED) {
    printf("request %" PRIu64 ", %s, %" PRIu32 " tokens of the prompt cached: %s", outcome.request,
           kReasons[outcome.reason], outcome.cached_tokens, outcome.error);
    for (uint32_t i = 0; i < outcome.count && i < 12; ++i)
      outcome.logprobs ? printf(" %" PRId32 " (%.2f)", outcome.ids[i], outcome.logprobs[i].sampled)
                       : printf(" %" PRId32, outcome.ids[i]);
    printf("\n");
  }
  return status;
}

/* Advances until no request is left. The long request is cancelled after 20 launches. */
static mkrt_status serve(mkrt_engine* engine) {
  mkrt_engine_stats stats = {.size = sizeof stats};
  mkrt_status status = submit_all(engine);
  while (!status) {
    if ((status = mkrt_advance(engine)) || (status = print_progress(engine)) ||
        (status = print_outcomes(engine)) || (status = mkrt_stats(engine, &stats)))
      break;
    if (stats.running + stats.waiting == 0) break;
    if (stats.launches == 20) status = mkrt_cancel(engine, 3);
  }
  if (!status)
    printf("%" PRIu64 " steps of %" PRIu64 " rows in %" PRIu64 " launches\n", stats.steps, stats.rows,
           stats.launches);
  return status;
}

int main(int argc, char** argv) {
  mkrt_engine_options options = {.size = sizeof options, .prefix_cache = 1, .page_size = 16, .pages = 128};
  if (argc != 3) return 2; /* ARTEFACT CHECKPOINT */
  options.stop_ids = kEnd;
  options.stop_count = COUNT(kEnd);
  mkrt_device* device = mkrt_open_processor();
  mkrt_session* session = device ? mkrt_open_session(device, argv[1], argv[2]) : NULL;
  mkrt_engine* engine = session ? mkrt_open_engine(session, &options) : NULL;
  const int failed = !engine || serve(engine) != MKRT_OK;
  if (failed) fprintf(stderr, "status %d: %s\n", (int)mkrt_error_status(), mkrt_error());
  mkrt_close_engine(engine);
  mkrt_close_session(session);
  mkrt_close_device(device);
  return failed;
}
