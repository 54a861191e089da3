// Calls fail while the process has no memory, and nothing is thrown out of them.
#include <cstdlib>
#include <functional>
#include <new>

#include "tests/attack/c_misuse/opened.h"

// Sanitizers have operators of their own.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)

namespace {

thread_local bool none_left = false;

}  // namespace

void* operator new(size_t bytes) {
  if (void* memory = none_left ? nullptr : std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace mkc::attack {
namespace {

TEST_CASE("a call without memory says so, whichever it is") {
  const Opened o;
  mkrt_engine* const engine = mkrt_open_engine(o.session, nullptr);
  REQUIRE_MESSAGE(engine, mkrt_error());
  const std::vector<int32_t> prompt{5, 17, 3};
  const mkrt_request request = request_of(prompt);
  const std::string path = "/none";
  Step s;
  const mkrt_batch batch = s.batch();
  uint64_t id = 0;
  int32_t nothing = 0;
  auto* const device = reinterpret_cast<mkrt_device*>(&nothing);
  auto* const session = reinterpret_cast<mkrt_session*>(&nothing);
  auto* const closed = reinterpret_cast<mkrt_engine*>(&nothing);
  const std::function<bool()> calls[] = {
      [&] { return mkrt_open_processor() == nullptr; },
      [&] { return mkrt_open_session(o.device, path.c_str(), path.c_str()) == nullptr; },
      [&] { return mkrt_open_engine(o.session, nullptr) == nullptr; },
      [&] { return mkrt_submit(engine, &request, &id) != MKRT_OK; },
      [&] { return mkrt_cancel(engine, 7) != MKRT_OK; },
      [&] { return mkrt_step(o.session, prompt.data(), 3, nullptr, nullptr) != MKRT_OK; },
      [&] { return mkrt_step_batch(session, &batch, nullptr, s.next.data()) != MKRT_OK; },
      [&] { return mkrt_set_timeout(session, 1) != MKRT_OK; },
      [&] { return mkrt_rewind(session, 0) != MKRT_OK; },
      [&] { return mkrt_accept_unsealed(device, 1) != MKRT_OK; },
      [&] { return mkrt_device_name(device) == nullptr; },
      [&] { return mkrt_vocab(session) == 0; },
      [&] { return mkrt_position(session) == 0; },
      [&] { return mkrt_page_size(session) == 0; },
      [&] { return mkrt_pages(session) == 0; },
      [&] { return mkrt_logits(session) == 0; },
      [&] { return mkrt_trace(session) == nullptr; },
      [&] { return mkrt_close_engine(closed), true; },
      [&] { return mkrt_close_session(session), true; },
      [&] { return mkrt_close_device(device), true; }};
  for (size_t i = 0; i < std::size(calls); ++i) {
    CAPTURE(i);
    mkrt_rewind(nullptr, 0);  // leaves another error
    none_left = true;
    const bool failed = calls[i]();
    none_left = false;
    CHECK(failed);
    CHECK(mkrt_error_status() == MKRT_NO_MEMORY);
    CHECK(std::string(mkrt_error()) == "mkrt: error: no memory of the host");
  }
  mkrt_close_engine(engine);
  CHECK(mkrt_step(o.session, prompt.data(), 3, nullptr, nullptr) == MKRT_OK);
}

}  // namespace
}  // namespace mkc::attack

#endif
