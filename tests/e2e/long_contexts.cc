// These tests run contexts with more KV tiles than each row has slots for. Bits must not depend on the size
// of the partials that attend tasks leave.
#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <numeric>
#include <random>

#include "ir/values.h"
#include "tests/e2e/pipeline.h"

namespace mkc {
namespace {

using test::Model;

constexpr int kContext = 4'500, kFine = kPartialsOfRow * kKvTilePositions;
constexpr uint32_t kPageSize = 64, kPages = (kContext + kPageSize - 1) / kPageSize, kMaxRequests = 3;

Model model_of(const test::Build& build) {
  reference::Shape shape;
  shape.context = kContext;
  return Model(reference::random_model(shape, 31), build);
}

// Returns random keys and values for kMaxRequests requests of the whole context, as if they had been fed.
std::vector<std::byte> fed_caches(const mkrt::Manifest& manifest) {
  std::mt19937 random(3);
  std::vector<std::byte> memory(
      manifest.caches.size() *
      mkrt::cache_piece_bytes(manifest, mkrt::CacheForm::kNhd, kPageSize, kMaxRequests * kPages));
  for (size_t i = 0; i < memory.size(); i += sizeof(float)) {
    const float value = static_cast<float>(random() % 2001) / 1000.0f - 1;
    std::memcpy(&memory[i], &value, sizeof(value));
  }
  return memory;
}

struct Rows {
  int32_t rows, kv_len;
  uint32_t limit = 1;
};

struct Output {
  std::vector<float> logits;  // logits of all rows, for launches of one step
  mkrt::StepResult sampled;
};

// Runs one launch. Request b has the b-th part of the cache.
Output run(const Model& model, const std::vector<Rows>& requests, mkrt::EmulatorDeviceOptions device = {}) {
  std::vector<int32_t> tokens, row_begin{0}, kv_len, page_begin{0}, pages(kMaxRequests * kPages);
  std::iota(pages.begin(), pages.end(), 0);
  std::vector<mkrt::Samples> samples;
  uint32_t steps = 1;
  for (const Rows& r : requests) {
    for (int32_t i = 0; i < r.rows; ++i) tokens.push_back((i * 7 + r.kv_len) % 100);
    row_begin.push_back(static_cast<int32_t>(tokens.size()));
    kv_len.push_back(r.kv_len);
    page_begin.push_back(page_begin.back() + static_cast<int32_t>(kPages));
    samples.push_back({.sampling = {.logprobs = 1}, .limit = r.limit});
    steps = std::max(steps, r.limit);
  }
  test::Opened opened = model.open({}, device);
  const mkrt::Manifest& manifest = opened.session.manifest();
  std::vector<std::byte> memory = fed_caches(manifest);
  mkrt::CacheOptions cache;
  cache.space = mkrt::place_caches(manifest, mkrt::CacheForm::kNhd, kPageSize, kMaxRequests * kPages,
                                   std::bit_cast<uint64_t>(memory.data()));
  REQUIRE(opened.session.use_cache(cache).ok());
  Output out;
  if (steps == 1) out.logits.resize(tokens.size() * model.vocab());
  mkrt::Batch batch{tokens, row_begin, kv_len, {page_begin, pages}, samples, steps == 1};
  const Status status = opened.session.step(batch, out.sampled, steps == 1 ? out.logits.data() : nullptr);
  if (!status.ok()) FAIL(status.error().message);
  return out;
}

int64_t part_of(const Model& model, const std::vector<Rows>& requests) {
  const Symbols& symbols = model.schedule().program.symbols;
  std::vector<StepRequest> step;
  for (const Rows& r : requests) step.push_back({r.rows, r.kv_len});
  return step_values(symbols, step)[step_symbols(symbols).blocks->partial_positions.index];
}

TEST_CASE(
    "rows of a long context have the same bits, whether others leave them slots for each piece or not") {
  const std::vector<Rows> alone{{3, 4'400}}, beside{{3, 4'400}, {4, 4}, {1, 700}};
  for (const Mode mode : {Mode::kMegakernel, Mode::kKernels}) {
    const Model model = model_of({.workers = 3,
                                  .race = mode == Mode::kMegakernel,
                                  .max_tokens = 8,
                                  .context = kContext,
                                  .mode = mode});
    CHECK(part_of(model, alone) == kKvTilePositions);
    CHECK(part_of(model, beside) == kKvChunkTiles * kKvTilePositions);
    const std::vector<float> expected = run(model, alone).logits, found = run(model, beside).logits;
    CHECK(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("a launch whose contexts outgrow their slots goes on with larger parts") {
  const Model model = model_of({.workers = 3, .max_tokens = 2, .max_requests = 2, .context = kContext});
  CHECK(part_of(model, {{1, kFine}, {1, kFine}}) == kKvTilePositions);
  CHECK(part_of(model, {{1, kFine + 1}, {1, kFine}}) == kKvChunkTiles * kKvTilePositions);
  const mkrt::StepResult together = run(model, {{1, kFine - 1, 4}, {1, kFine - 3, 4}}).sampled,
                         alone = run(model, {{1, kFine - 1, 4}}).sampled;
  CHECK(together.ids.size() == 8);
  CHECK(std::ranges::equal(together.of(0), alone.ids));
  for (size_t i = 0; i < alone.ids.size(); ++i) {
    CHECK(together.logprobs[i].sampled == alone.logprobs[i].sampled);
    CHECK(together.logprobs[i].sampled < 0);
  }
}

}  // namespace
}  // namespace mkc
