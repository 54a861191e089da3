// Floors of this processor: bytes read each second from memory, multiply-adds each second, and the time of a cache line's
// way between two cores. tools/bench/cpu compiles it with -O3 -march=native -pthread.
//
// With RUNS, all floors are printed as one JSON object. With serve, each line of standard input is a request, as in
// cpu_step.cc, and each answer is a JSON object on one line. The first line of output is what the runs do:
// {"bytes": ..., "multiply_adds": ...}.
//
//   decode RUNS      reads the bytes so many times: {"ms": [...]}
//   prefill TOKENS   does the multiply-adds once, in bf16 where the processor has it: {"ms": [...]}
//   begin, end       do nothing: {}
//
// Usage: cpu_floor THREADS RUNS|serve
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if !defined(__AVX2__) || !defined(__FMA__)
#error "expected a processor with AVX2 and FMA"
#endif

enum { kMaxThreads = 256, kMaxRuns = 64, kChains = 12, kRounds = 16000000, kHops = 200000 };
static const uint64_t kBytes = UINT64_C(1) << 30;

static int threads, processors[CPU_SETSIZE], usable;
static char* buffer;
static pthread_barrier_t gate;
static _Atomic uint64_t sink;  // keeps results alive

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void bind_to(int index) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processors[index % usable], &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Four independent sums of whole cache lines; each line is loaded once.
static void read_part(int thread) {
  const uint64_t part = kBytes / (uint64_t)threads / 256 * 256;
  const char *at = buffer + part * (uint64_t)thread, *end = at + part;
#ifdef __AVX512F__
  __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  for (; at < end; at += 256)
    for (int i = 0; i < 4; ++i) sum[i] = _mm512_xor_si512(sum[i], _mm512_load_si512(at + 64 * i));
  sum[0] = _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]));
  sink += (uint64_t)_mm512_reduce_add_epi64(sum[0]);
#else
  __m256i sum[8];
  for (int i = 0; i < 8; ++i) sum[i] = _mm256_setzero_si256();
  for (; at < end; at += 256)
    for (int i = 0; i < 8; ++i)
      sum[i] = _mm256_xor_si256(sum[i], _mm256_load_si256((const __m256i*)(at + 32 * i)));
  for (int i = 1; i < 8; ++i) sum[0] = _mm256_xor_si256(sum[0], sum[i]);
  sink += (uint64_t)_mm256_extract_epi64(sum[0], 0);
#endif
}

static void fma_part(int thread) {
  (void)thread;
#ifdef __AVX512F__
  __m512 acc[kChains], a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(1.0f);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_setzero_ps();
  for (int r = 0; r < kRounds; ++r) {
    __asm__ volatile("" : "+v"(a), "+v"(b));
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_fmadd_ps(a, b, acc[i]);
  }
  for (int i = 1; i < kChains; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  sink += (uint64_t)_mm512_reduce_add_ps(acc[0]);
#else
  __m256 acc[kChains], a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(1.0f);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm256_setzero_ps();
  for (int r = 0; r < kRounds; ++r) {
    __asm__ volatile("" : "+x"(a), "+x"(b));
    for (int i = 0; i < kChains; ++i) acc[i] = _mm256_fmadd_ps(a, b, acc[i]);
  }
  for (int i = 1; i < kChains; ++i) acc[0] = _mm256_add_ps(acc[0], acc[i]);
  sink += (uint64_t)_mm256_cvtss_f32(acc[0]);
#endif
}

#ifdef __AMX_BF16__
// Two tiles of 16 tokens are multiplied with two of 16 rows, each of 32 columns, from the first cache.
enum { kTileRounds = 1000000 };
static void tile_part(int thread) {
  static const struct {
    uint8_t palette, begin, none[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config __attribute__((aligned(64))) = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
  static const char operands[4096] __attribute__((aligned(64)));
  (void)thread;
  _tile_loadconfig(&config);
  for (int r = 0; r < kTileRounds; ++r) {
    _tile_loadd(4, operands, 64);
    _tile_loadd(5, operands + 1024, 64);
    _tile_loadd(6, operands + 2048, 64);
    _tile_loadd(7, operands + 3072, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}
#endif
#ifdef __AVX512BF16__
static void dot_part(int thread) {
  (void)thread;
  __m512 acc[kChains];
  __m512i a = _mm512_set1_epi16(0x3f00), b = _mm512_set1_epi16(0x3f80);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_setzero_ps();
  for (int r = 0; r < kRounds; ++r) {
    __asm__ volatile("" : "+v"(a), "+v"(b));
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], (__m512bh)a, (__m512bh)b);
  }
  for (int i = 1; i < kChains; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  sink += (uint64_t)_mm512_reduce_add_ps(acc[0]);
}
#endif

// What a thread does, and how many multiply-adds that is.
struct madds {
  void (*part)(int thread);
  double count;
};
#ifdef __AVX512BF16__
static struct madds bf16_madds(void) {
#ifdef __AMX_BF16__
  if (syscall(SYS_arch_prctl, 0x1023, 18) == 0)  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return (struct madds){tile_part, 4.0 * 16 * 16 * 32 * kTileRounds};
#endif
  return (struct madds){dot_part, 2.0 * 16 * kRounds * kChains};
}
#endif

struct crew {
  void (*part)(int thread);
  int thread, runs;
};

static void* serve(void* of) {
  const struct crew* crew = of;
  bind_to(crew->thread);
  for (int r = 0; r < crew->runs; ++r) {
    pthread_barrier_wait(&gate);
    crew->part(crew->thread);
    pthread_barrier_wait(&gate);
  }
  return NULL;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// All threads do their parts at once. The seconds of `runs` runs are sorted. One more run before them warms up.
static void time_runs(void (*part)(int), int runs, double* seconds) {
  pthread_t ids[kMaxThreads];
  struct crew crews[kMaxThreads];
  pthread_barrier_init(&gate, NULL, (unsigned)threads + 1);
  for (int t = 0; t < threads; ++t) {
    crews[t] = (struct crew){part, t, runs + 1};
    pthread_create(&ids[t], NULL, serve, &crews[t]);
  }
  for (int r = -1; r < runs; ++r) {
    pthread_barrier_wait(&gate);
    const double begin = now();
    pthread_barrier_wait(&gate);
    if (r >= 0) seconds[r] = now() - begin;
  }
  for (int t = 0; t < threads; ++t) pthread_join(ids[t], NULL);
  pthread_barrier_destroy(&gate);
  qsort(seconds, (size_t)runs, sizeof(double), by_value);
}

static void print_rate(const char* name, void (*part)(int), double work, int runs) {
  double seconds[kMaxRuns];
  time_runs(part, runs, seconds);
  printf("\"%s\": {\"best\": %.4g, \"median\": %.4g, \"least\": %.4g, \"runs\": %d}, ", name, 1e-9 * work / seconds[0],
         1e-9 * work / seconds[runs / 2], 1e-9 * work / seconds[runs - 1], runs);
}

static _Alignas(128) _Atomic int ball;

static void* answer(void* unused) {
  bind_to(1);
  for (int i = 0; i < kHops; ++i) {
    while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * i + 1) _mm_pause();
    atomic_store_explicit(&ball, 2 * i + 2, memory_order_release);
  }
  return unused;
}

// Returns the nanoseconds until another core sees a store: half of a round trip.
static double hop_ns(void) {
  pthread_t other;
  ball = 0;
  pthread_create(&other, NULL, answer, NULL);
  bind_to(0);
  double begin = 0;
  for (int i = 0; i < kHops; ++i) {
    if (i == kHops / 10) begin = now();
    atomic_store_explicit(&ball, 2 * i + 1, memory_order_release);
    while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * i + 2) _mm_pause();
  }
  const double seconds = now() - begin;
  pthread_join(other, NULL);
  return 1e9 * seconds / (2.0 * (kHops - kHops / 10));
}

static double bytes_read(void) {
  return (double)(kBytes / (uint64_t)threads / 256 * 256 * (uint64_t)threads);
}
// Multiply-adds of fma_part(), for each lane of a vector.
static double vectors_added(void) {
  return (double)threads * kRounds * kChains;
}
#ifdef __AVX512F__
enum { kLanes = 16 };
#else
enum { kLanes = 8 };
#endif

static void print_floors(int runs) {
  printf("{");
  print_rate("read_gb_s", read_part, bytes_read(), runs);
  print_rate("f32_gmadd_s", fma_part, kLanes * vectors_added(), runs);
#ifdef __AVX512BF16__
  const struct madds bf16 = bf16_madds();
  print_rate("bf16_gmadd_s", bf16.part, threads * bf16.count, runs);
#endif
  if (usable < 2) {
    printf("\"hop_ns\": null}\n");
    return;
  }
  double ns[kMaxRuns];
  for (int r = 0; r < runs; ++r) ns[r] = hop_ns();
  qsort(ns, (size_t)runs, sizeof(double), by_value);
  printf("\"hop_ns\": {\"best\": %.1f, \"median\": %.1f, \"greatest\": %.1f, \"runs\": %d}}\n", ns[0], ns[runs / 2],
         ns[runs - 1], runs);
}

static void print_ms(void (*part)(int), int runs) {
  double seconds[kMaxRuns];
  time_runs(part, runs, seconds);
  printf("{\"ms\": [");
  for (int r = 0; r < runs; ++r) printf("%s%.6f", r == 0 ? "" : ", ", 1e3 * seconds[r]);
  printf("]}\n");
}

static void answer_requests(void) {
#ifdef __AVX512BF16__
  const struct madds bf16 = bf16_madds();
  void (*const multiply_add)(int) = bf16.part;
  const double count = threads * bf16.count;
#else
  void (*const multiply_add)(int) = fma_part;
  const double count = kLanes * vectors_added();
#endif
  printf("{\"bytes\": %.0f, \"multiply_adds\": %.0f}\n", bytes_read(), count);
  fflush(stdout);
  char line[256];
  for (int runs = 0; fgets(line, sizeof line, stdin) != NULL; fflush(stdout)) {
    if (sscanf(line, "decode %d", &runs) == 1 && runs > 0)
      print_ms(read_part, runs < kMaxRuns ? runs : kMaxRuns);
    else if (strncmp(line, "prefill", 7) == 0)
      print_ms(multiply_add, 1);
    else
      printf("{}\n");
  }
}

int main(int argc, char** argv) {
  const int serves = argc == 3 && strcmp(argv[2], "serve") == 0;
  threads = argc == 3 ? atoi(argv[1]) : 0;
  const int runs = serves ? 1 : argc == 3 ? atoi(argv[2]) : 0;
  if (threads < 1 || threads > kMaxThreads || runs < 1 || runs > kMaxRuns)
    return fputs("usage: cpu_floor THREADS RUNS|serve\n", stderr), 1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return perror("sched_getaffinity"), 1;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) processors[usable++] = i;
  buffer = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED) return perror("mmap"), 1;
  madvise(buffer, kBytes, MADV_HUGEPAGE);
  memset(buffer, 1, kBytes);
  if (serves)
    answer_requests();
  else
    print_floors(runs);
  return 0;
}
