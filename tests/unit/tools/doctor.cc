// Doctor compares logits with float64, and tells what of a GPU may spoil its checks.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "tools/doctor/bodies.h"
#include "tools/doctor/body_family.h"
#include "tools/doctor/body_model.h"
#include "tools/doctor/gpu_notes.h"
#include "tools/native.h"

namespace mkc {
namespace {

constexpr size_t kVocab = 4;

std::string compare(const std::vector<float>& found, const std::vector<int32_t>& sampled) {
  const std::vector<double> expected{1, 2, 3, 4, 4, 3, 2, 1};
  return compare_logits(found, expected, kVocab, sampled);
}

mkrt::DeviceFacts h100() {
  mkrt::DeviceFacts facts;
  facts.name = "NVIDIA H100 80GB HBM3";
  facts.major = 9, facts.sms = 132, facts.memory_bytes = uint64_t{80} << 30;
  facts.clock_mhz = 1980, facts.driver = 13000;
  return facts;
}

constexpr const char* kPtxas = "ptxas 13.0, V13.0.88 (/usr/bin/ptxas)";

std::string the_note(const mkrt::DeviceFacts& facts, const std::string& assembler = kPtxas,
                     const CheckReport* checked = nullptr) {
  const std::vector<std::string> notes = gpu_notes(facts, assembler, checked);
  REQUIRE(notes.size() == 1);
  return notes[0];
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

std::string config_of_body(const char* body) {
  std::string text = kBodyConfig;
  return text.replace(text.find("BODY"), 4, body);
}

}  // namespace

TEST_CASE("a file of measurements has a short name for any list of processors") {
  REQUIRE(setenv("MKC_CACHE", "/cache", 1) == 0);
  mkrt::ProcessorFacts facts;
  facts.model = "AuthenticAMD-25-17-1";
  facts.processors = {0, 1, 2, 3};
  facts.threads = 4;
  CHECK(measured_path(facts) == "/cache/devices/AuthenticAMD-25-17-1-cpu0-3.json");
  facts.threads = 2;
  CHECK(measured_path(facts) == "/cache/devices/AuthenticAMD-25-17-1-cpu0-3-by-2-threads.json");
  facts.processors.clear();
  for (int cpu = 0; cpu < 512; cpu += 2) facts.processors.push_back(cpu);
  facts.threads = 256;
  const std::string even = measured_path(facts);
  CHECK(even.size() < 100);
  facts.processors.back() = 511;
  CHECK(measured_path(facts).size() == even.size());
  CHECK(measured_path(facts) != even);
  REQUIRE(unsetenv("MKC_CACHE") == 0);
}

TEST_CASE("rows with large errors are named, and rows with numbers that are none") {
  CHECK(compare({1, 2, 3, 4, 4, 3, 2, 1}, {0}) == "");
  CHECK(compare({1, 2, 3, 4, 4, 3, 2, 1.01F}, {3, 0}) == "");
  CHECK(compare({1, 2, 3, 4, 4, 3, 2, 2}, {}) ==
        "rows 1 of 2 have relative errors up to 1.8e-01, expected at most 0.01");
  CHECK(has(compare({NAN, 2, 3, 4, 4, 3, 2, 1}, {}), "rows 0 of 2 have relative errors up to inf"));
  CHECK(compare({1, 2, 3}, {}) == "3 logits, expected 8");
}

TEST_CASE("a sampled token that is not the greatest is named") {
  CHECK(compare({1, 2, 3, 4, 4, 3, 2, 1}, {3, 1}) ==
        "row 1 sampled 1, expected 0, whose logit is the greatest");
}

TEST_CASE("logits of a position do not depend on later ones, and differ between bodies") {
  const std::vector<int32_t> ids{5, 17, 3, 499};
  std::vector<double> before;
  for (const char* body : {"attention", "product", "norm", "gated"}) {
    const BodyModel model(config_of_body(body), 7);
    CHECK(model.vocab() == 500);
    const std::vector<double> all = model.logits(ids), some = model.logits(std::span(ids).first(2));
    REQUIRE(all.size() == 2000);
    CHECK(std::vector<double>(all.begin(), all.begin() + 1000) == some);
    CHECK(all != before);
    before = all;
  }
}

TEST_CASE("a sound GPU has no notes") {
  CHECK(gpu_notes(h100(), kPtxas, nullptr).empty());
}

TEST_CASE("a driver that is older than assembler or PTX is named with what is expected") {
  mkrt::DeviceFacts facts = h100();
  facts.driver = 12080;
  CHECK(the_note(facts) ==
        "the driver supports CUDA 12.8, and ptxas 13.0, V13.0.88 (/usr/bin/ptxas) makes cubins of CUDA 13: "
        "expected a "
        "driver of 13.0 or newer, or an --assembler of CUDA 12.8 or 12.9");
  CHECK(gpu_notes(facts, "nvJitLink 12.8 (/usr/lib/libnvJitLink.so)", nullptr).empty());
  CHECK(gpu_notes(facts, "", nullptr).empty());
  facts.driver = 12040;
  CHECK(has(the_note(facts, ""), "the driver supports CUDA 12.4, expected 12.8 or newer"));
}

TEST_CASE("modes, slices and displays are named") {
  mkrt::DeviceFacts facts = h100();
  facts.compute_mode = 3;
  CHECK(has(the_note(facts), "compute mode is exclusive process, expected default"));
  facts.compute_mode = 2;
  CHECK(has(the_note(facts), "compute mode is prohibited, expected default"));
  facts = h100();
  facts.time_limit = true;
  CHECK(has(the_note(facts), "a display uses the GPU, expected none"));
  facts = h100();
  facts.name += " MIG 1g.10gb", facts.sms = 16;
  CHECK(has(the_note(facts), "this is a MIG slice with 16 SMs"));
}

TEST_CASE("memory of others, a slow opening and slow clocks are named") {
  CheckReport checked;
  checked.free_bytes = uint64_t{79} << 30;
  CHECK(gpu_notes(h100(), kPtxas, &checked).empty());
  checked.free_bytes = uint64_t{3} << 30;
  CHECK(has(the_note(h100(), kPtxas, &checked), "3072 MB of 81920 MB are free, expected nearly all"));
  checked.free_bytes = 0;
  checked.first_open_seconds = 4;
  CHECK(has(the_note(h100(), kPtxas, &checked), "opening the GPU took 4.0 s, expected less than 2"));
  checked.first_open_seconds = 0;
  checked.measured["clock_mhz"] = 1980.0;
  CHECK(gpu_notes(h100(), kPtxas, &checked).empty());
  checked.measured["clock_mhz"] = 1095.0;
  CHECK(has(the_note(h100(), kPtxas, &checked), "the clock is 1095 MHz after the reads, expected near 1980"));
}

}  // namespace mkc
