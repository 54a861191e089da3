// These tests hold the bytes that mkc says of a model against those that a session takes from its device.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "ir/step_symbols.h"
#include "runtime/session/pages.h"
#include "scheduler/machine/cost.h"
#include "tests/e2e/pipeline.h"
#include "tools/report/memory_json.h"

namespace mkc::test {
namespace {

// CountingDevice notes the memory that is taken from a device.
class CountingDevice : public mkrt::Device {
 public:
  explicit CountingDevice(std::unique_ptr<mkrt::Device> device) : device_(std::move(device)) {}

  std::multiset<uint64_t> sizes() const {
    std::multiset<uint64_t> sizes;
    for (const auto& [address, bytes] : held_) sizes.insert(bytes);
    return sizes;
  }

  std::string name() const override { return device_->name(); }
  mkrt::Result<uint64_t> allocate(uint64_t bytes) override {
    mkrt::Result<uint64_t> address = device_->allocate(bytes);
    if (address.ok()) held_[address.value()] = bytes;
    return address;
  }
  void release(uint64_t address) override {
    held_.erase(address);
    device_->release(address);
  }
  bool shares_memory() const override { return device_->shares_memory(); }
  mkrt::Status write(uint64_t to, std::span<const std::byte> from) override {
    return device_->write(to, from);
  }
  mkrt::Status read(std::span<std::byte> to, uint64_t from) override { return device_->read(to, from); }
  mkrt::Status clear(uint64_t at, uint64_t bytes) override { return device_->clear(at, bytes); }
  mkrt::Status load(const mkrt::Artefact& artefact) override { return device_->load(artefact); }
  bool loaded() const override { return device_->loaded(); }
  void unload() override { device_->unload(); }
  mkrt::Status pack(uint64_t pack) override { return device_->pack(pack); }
  mkrt::Status launch(uint64_t stream, uint64_t session, uint64_t step, uint32_t steps) override {
    return device_->launch(stream, session, step, steps);
  }

 private:
  std::unique_ptr<mkrt::Device> device_;
  std::map<uint64_t, uint64_t> held_;  // bytes by address
};

// Takes one piece of memory of this size out of those that a device gave.
void take(std::multiset<uint64_t>& sizes, const char* what, uint64_t bytes) {
  const auto found = sizes.find(bytes);
  CHECK_MESSAGE(found != sizes.end(), what, " of ", bytes, " bytes");
  if (found != sizes.end()) sizes.erase(found);
}

void check_memory(const std::string& directory, const Build& build) {
  CAPTURE(directory);
  const Model model(directory, build);
  const Schedule& schedule = model.schedule();
  constexpr uint32_t kPageSize = 16, kPages = 24;
  const auto bytes_of = [&](uint32_t pages) {
    CountingDevice device(model.open_device());
    const mkrt::Session session = model.open_on(device, {.cache = {.page_size = kPageSize, .pages = pages}});
    std::multiset<uint64_t> sizes = device.sizes();
    take(sizes, "weights", schedule.weight_bytes);
    take(sizes, "workspace", schedule.workspace_bytes);
    take(sizes, "cache", position_bytes(schedule.program) * kPageSize * pages);
    uint64_t rest = 0;
    for (const uint64_t bytes : sizes) rest += bytes;
    return rest;
  };
  // The rest does not grow with the cache, and is as small as lists, counters and records are.
  const uint64_t rest = bytes_of(kPages);
  CHECK(bytes_of(2 * kPages) <= rest + 2 * kPages * build.max_requests * sizeof(int32_t));
  CHECK(rest < (1 << 20));
  // The report page counts the cache of all requests at full context.
  const StepSymbols step = step_symbols(schedule.program.symbols);
  const auto most = [&](auto symbol) {
    return static_cast<uint64_t>(schedule.program.symbols[symbol].bounds.hi);
  };
  const uint64_t pages = most(step.requests) * mkrt::pages_for(most(step.kv_len), kPageSize);
  CountingDevice device(model.open_device());
  const mkrt::Session session = model.open_on(device, {.cache = {.pages = static_cast<uint32_t>(pages)}});
  std::multiset<uint64_t> sizes = device.sizes();
  take(sizes, "full cache", full_cache_bytes(schedule));
}

}  // namespace

TEST_CASE("a session takes the bytes that mkc says of weights, workspace and cache") {
  const std::string models = MKC_SOURCE_DIR "/tests/fixtures/models/";
  check_memory(models + "llama", {});
  check_memory(models + "llama",
               {.max_tokens = 40, .max_requests = 3, .context = 41, .kv_dtype = DType::e4m3});
  check_memory(models + "qwen3_moe_f32", {});
  check_memory(models + "gpt_oss", {.max_tokens = 5, .max_requests = 2});
  check_memory(models + "mistral_window_f32", {.workers = 7, .kv_dtype = DType::f16});
}

}  // namespace mkc::test
