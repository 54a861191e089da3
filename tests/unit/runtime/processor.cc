// These tests load code into the processor's device, of artefacts that need no compiler.
#include "runtime/device/processor.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>

#include "runtime/base/file.h"
#include "runtime/device/device.h"
#include "tests/apart.h"
#include "tests/unit/runtime/made_artefact.h"
#include "tests/unit/temp_dir.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MKC_SANITIZED 1
#endif
#endif

namespace mkrt {
namespace {

#ifdef MKC_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// The files are processor_code.cc with answers 100 and 200, and without mk_pack.
const std::string kFirst = MKC_PROCESSOR_CODE "/libprocessor_code_100.so",
                  kSecond = MKC_PROCESSOR_CODE "/libprocessor_code_200.so",
                  kIncomplete = MKC_PROCESSOR_CODE "/libprocessor_code_incomplete.so";

std::vector<std::byte> bytes_of(const std::string& path) {
  const Result<MappedFile> file = map_file(path);
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  return {file.value().bytes.begin(), file.value().bytes.end()};
}

Artefact artefact(std::vector<std::byte> image, const std::string& target = "x86-64-v3",
                  uint32_t workers = 3) {
  Manifest m;
  m.abi = kAbiVersion;
  m.target = target;
  m.workers = workers;
  m.threads = 1;
  m.shared_bytes = 4096;
  m.grids.resize(1);
  m.grids[0].name = "embed";
  return test::made_artefact(std::move(m), std::move(image));
}

std::string refused(Device& device, const Artefact& a) {
  const Status status = device.load(a);
  return status.ok() ? "" : status.error().message;
}

constexpr uint32_t kParts = 24;  // of rows that are packed, 8 for each worker

// Returns what the workers of a launch wrote, and what mk_pack() wrote for each part.
std::vector<uint32_t> answers(Device& device) {
  const uint64_t memory = device.allocate((3 + kParts) * sizeof(uint32_t)).value();
  REQUIRE(device.launch(0, memory, 0, 1).ok());
  REQUIRE(device.pack(memory + 3 * sizeof(uint32_t)).ok());
  std::vector<uint32_t> values(3 + kParts);
  REQUIRE(device.read(std::as_writable_bytes(std::span(values)), memory).ok());
  return values;
}

// Returns the answers of code whose answer is `first`.
std::vector<uint32_t> answers_of(uint32_t first) {
  std::vector<uint32_t> values{first, first + 1, first + 2};
  values.resize(3 + kParts, first + kParts);
  return values;
}
const std::vector<uint32_t> kOfFirst = answers_of(100), kOfSecond = answers_of(200);

TEST_CASE("each worker of an artefact for the processor runs the artefact's own code") {
  const std::unique_ptr<Device> device = open_processor(), other = open_processor();
  CHECK(device->name() == "cpu");
  CHECK(refused(*device, artefact(bytes_of(kFirst))) == "");
  CHECK(refused(*other, artefact(bytes_of(kSecond))) == "");
  CHECK(answers(*device) == kOfFirst);
  CHECK(answers(*other) == kOfSecond);
  CHECK(answers(*device) == kOfFirst);
}

TEST_CASE("the processor refuses artefacts for other devices, and takes its own after that") {
  const std::unique_ptr<Device> device = open_processor();
  const std::vector<std::string> targets = processor_targets();
  for (const std::string target : {"sm_90a", "emulator", "x86-64-v9", ""})
    CHECK(refused(*device, artefact(bytes_of(kFirst), target)) ==
          fmt::format("cpu: error: the artefact is for {}, the processor runs {}", target,
                      fmt::join(targets, ", ")));
  CHECK(refused(*device, artefact({})) == "cpu: error: the artefact has no code");
  const std::string invalid = refused(*device, artefact(std::vector<std::byte>(4096, std::byte{7})));
  CHECK(invalid.starts_with("cpu: error: the artefact's code does not load: "));
  CHECK(invalid.ends_with(": invalid ELF header"));
  const std::vector<std::byte> whole = bytes_of(kFirst);
  CHECK(refused(*device, artefact({whole.begin(), whole.begin() + 40})).ends_with(": file too short"));
  CHECK(refused(*device, artefact(bytes_of(kIncomplete))) ==
        "cpu: error: the artefact's code has no mk_pack");
  CHECK(refused(*device, artefact(whole)) == "");
  CHECK(answers(*device) == kOfFirst);
  CHECK(refused(*device, artefact(whole)) == "");
  CHECK(refused(*device, artefact(whole, "x86-64-v3", 2)).ends_with(": open another device for it"));
  CHECK(answers(*device) == kOfFirst);
  CHECK(device->loaded());
  device->unload();
  CHECK(!device->loaded());
  CHECK(refused(*device, artefact(bytes_of(kSecond))) == "");
  CHECK(answers(*device) == kOfSecond);
}

TEST_CASE("a device that has another kernel loaded says what differs first") {
  const auto says = [](std::string Manifest::* hash) {
    Manifest loaded, wanted;
    loaded.schedule_hash = wanted.schedule_hash = "5";
    loaded.*hash = "6", wanted.*hash = "7";
    return has_other_kernel("cpu", loaded, wanted).message;
  };
  const std::string ends = " 6 loaded, not 7: open another device for it";
  CHECK(says(&Manifest::schedule_hash) == "cpu: error: has the kernel of schedule" + ends);
  CHECK(says(&Manifest::code_seal) == "cpu: error: has the kernel of code" + ends);
  CHECK(says(&Manifest::seal) == "cpu: error: has the kernel of seal" + ends);
  CHECK(says(&Manifest::mkc_version) ==
        "cpu: error: has the kernel of another manifest loaded: open another device for it");
}

TEST_CASE("memory is cleared, the device's own and that of a mapped file") {
  constexpr uint64_t kBytes = (uint64_t{40} << 20) + 100;  // large ranges are cleared in another way
  const test::TempDir dir;
  const FileWriter file(dir.path + "/file");
  const std::unique_ptr<Device> device = open_processor();
  const Result<std::shared_ptr<std::byte>> mapping = file.map(kBytes);
  REQUIRE_MESSAGE(mapping.ok(), mapping.error().message);
  const std::vector<std::byte> ones(kBytes, std::byte{1});
  for (const uint64_t at :
       {device->allocate(kBytes).value(), reinterpret_cast<uint64_t>(mapping.value().get())}) {
    REQUIRE(device->write(at, ones).ok());
    REQUIRE(device->clear(at + 10, kBytes - 20).ok());
    std::vector<std::byte> read(kBytes);
    REQUIRE(device->read(read, at).ok());
    CHECK(std::ranges::count(read, std::byte{1}) == 20);
    CHECK(std::ranges::count(read, std::byte{0}) == kBytes - 20);
    CHECK(read[9] == std::byte{1});
    CHECK(read[kBytes - 10] == std::byte{1});
  }
}

TEST_CASE("a tick is measured right, wherever the thread loses its processor") {
  for (uint64_t pause_at = 0; pause_at <= 20; ++pause_at) {
    CAPTURE(pause_at);
    uint64_t now = 1000, reads = 0;  // in ns; 0: no pause, 20: one before every reading
    const auto read = [&] {
      ++reads;
      now += pause_at == 20 || reads == pause_at ? 20'000'000 : 30;
      return now;
    };
    CHECK(measure_ns_per_tick([&] { return 4 * read(); }, read) ==
          doctest::Approx(0.25).epsilon(0.011).scale(0));
  }
}

TEST_CASE("a child made by fork() cannot use its parent's threads, and can open a device of its own") {
  std::unique_ptr<Device> device = open_processor();
  REQUIRE(refused(*device, artefact(bytes_of(kFirst))) == "");
  const std::string expected =
      "cpu: error: another process opened the device's first session, and a child made by fork() has none of "
      "its "
      "threads: open another device";
  const auto child = [&]() -> std::string {
    const uint64_t memory = device->allocate((3 + kParts) * sizeof(uint32_t)).value();
    for (const Status& status :
         {device->launch(0, memory, 0, 1), device->pack(memory), device->load(artefact(bytes_of(kFirst)))})
      if (status.ok() || status.error().message != expected) return "not refused";
    if (kSanitized) return "refused";  // a sanitizer may refuse threads of a child
    device.reset();
    const std::unique_ptr<Device> own = open_processor();
    return refused(*own, artefact(bytes_of(kSecond))) == "" && answers(*own) == kOfSecond ? "refused"
                                                                                          : "no own";
  };
  CHECK(mkc::test::run_apart(child, 20).text == "refused");
  CHECK(answers(*device) == kOfFirst);
}

TEST_CASE("workers without a thread are an error") {
  if (kSanitized) {
    MESSAGE("SKIP: a sanitizer needs more memory than the test leaves");
    return;
  }
  const mkc::test::ApartResult told = mkc::test::run_apart(
      [] {
        // Memory for stacks of a few threads is left.
        uint64_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        const rlim_t bytes = pages * 4096 + (uint64_t{256} << 20);
        const rlimit limit{bytes, bytes};
        setrlimit(RLIMIT_AS, &limit);
        return refused(*open_processor(), artefact(bytes_of(kFirst), "x86-64-v3", 300));
      },
      60);
  CHECK(told.text.starts_with("cpu: error: no thread for worker "));
  CHECK(told.text.ends_with(" of 300"));
}

}  // namespace
}  // namespace mkrt
