// This test counts the allocations of its whole process, so it is a program of its own.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

#include "runtime/engine/engine.h"

namespace {

size_t allocations = 0;

}  // namespace

// Sanitizers have operators of their own, and call these functions.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
extern "C" void __sanitizer_malloc_hook(const volatile void*, size_t) {
  ++allocations;
}
extern "C" void __sanitizer_free_hook(const volatile void*) {}
#else
void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#endif

namespace mkrt {
namespace {

// Constant checks each batch and always samples the token 7.
class Constant final : public Stepper {
 public:
  BatchLimits limits() const override {
    return {.max_tokens = 64, .max_requests = 64, .context = 400, .vocab = 9, .page_size = 16, .pages = 1600};
  }
  Status step(const Batch& batch, StepResult& result) override {
    result.begin.assign(1, 0);
    result.ids.clear();
    result.finite.clear();
    result.steps = 1;
    for (const Samples& samples : batch.samples) {
      if (samples.limit > 0) result.ids.push_back(7);
      result.begin.push_back(static_cast<uint32_t>(result.ids.size()));
      result.finite.push_back(samples.limit > 0 ? 1 : 0);
    }
    return check_batch(batch, limits(), seen_);
  }

 private:
  PagesSeen seen_;
};

TEST_CASE("a step in which nobody comes or goes allocates no memory") {
  for (const bool prefix_cache : {false, true}) {
    CAPTURE(prefix_cache);
    Constant model;
    Engine engine = Engine::open(model, {.prefix_cache = prefix_cache}).value();
    for (int i = 0; i < 64; ++i) {
      Request request;
      request.prompt.assign(100, i % 8);
      request.max_new_tokens = 300;
      engine.submit(std::move(request));
    }
    REQUIRE(engine.step().ok());  // all requests arrive in the first step
    const size_t before = allocations;
    while (engine.clock() < 250) REQUIRE(engine.step().ok());
    CHECK(allocations == before);
    CHECK(engine.take_outcomes().empty());  // no request has finished
    CHECK((engine.stats().prefix_hits > 0) == prefix_cache);
    CHECK(before > 0);
  }
}

}  // namespace
}  // namespace mkrt
