#include "scheduler/machine/native.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace mkc {
namespace {

// Returns what the driver would say of a device like the H100 SXM.
mkrt::DeviceFacts facts_of(const std::string& name) {
  mkrt::DeviceFacts f;
  f.name = name;
  f.major = 9;
  f.sms = 132;
  f.shared_bytes = 232448;
  f.memory_bytes = uint64_t{80} << 30;
  f.l2_bytes = 50 << 20;
  f.clock_mhz = 1980;
  f.memory_mhz = 2619;
  f.bus_bits = 5120;
  return f;
}

NativeMachine native(const mkrt::DeviceFacts& facts, std::string_view measured = "") {
  Result<NativeMachine> found = machine_of_device(facts, "sm_90a", measured);
  REQUIRE_MESSAGE(found.ok(), (found.ok() ? "" : found.error().message));
  return found.value();
}

std::string fault_of(const mkrt::DeviceFacts& facts, std::string_view measured = "") {
  const Result<NativeMachine> found = machine_of_device(facts, "sm_90a", measured);
  REQUIRE_FALSE(found.ok());
  return found.error().message;
}

TEST_CASE("a device whose name and multiprocessors are listed has the kept description") {
  for (const auto& [name, sms, machine] :
       {std::tuple("NVIDIA H100 80GB HBM3", 132u, "h100"), std::tuple("NVIDIA H100 PCIe", 114u, "h100-pcie"),
        std::tuple("NVIDIA H200", 132u, "h200"), std::tuple("NVIDIA H100 NVL", 132u, "h100-nvl")}) {
    mkrt::DeviceFacts facts = facts_of(name);
    facts.sms = sms;
    const NativeMachine found = native(facts);
    CHECK(found.machine.json == load_machine(machine).value().json);
    CHECK(found.said.find("the kept description " + std::string(machine)) != std::string::npos);
  }
}

TEST_CASE("every kept device has one description, whose figures have a source") {
  std::vector<std::string> devices;
  for (const std::string& name : machine_names()) {
    const Machine machine = load_machine(name).value();
    CHECK_MESSAGE(machine.is_gpu() != machine.devices.empty(), name);
    devices.insert(devices.end(), machine.devices.begin(), machine.devices.end());
    const nlohmann::json figures = nlohmann::json::parse(machine.json);
    for (const auto& [key, figure] : figures.items())
      if (figure.is_object())
        CHECK_MESSAGE(figure.at("source").get<std::string>().size() > 4, name << " " << key);
  }
  std::ranges::sort(devices);
  CHECK(std::ranges::adjacent_find(devices) == devices.end());
}

TEST_CASE("of another device the nearest description is scaled to what the driver says") {
  mkrt::DeviceFacts facts = facts_of("NVIDIA GH200 480GB");
  const Machine h100 = load_machine("h100").value();
  const NativeMachine same = native(facts);
  CHECK(same.machine.name == "nvidia-gh200-480gb");
  CHECK(same.machine.notify_ns == h100.notify_ns);
  CHECK(same.machine.peak_bytes_per_ns == doctest::Approx(3352.3).epsilon(1e-3));
  CHECK(same.machine.stream_bytes_per_ns == doctest::Approx(0.92 * 3352.3).epsilon(1e-3));
  CHECK(same.machine.memory_bytes == facts.memory_bytes);
  CHECK(same.said.find("derived from h100, as no description is kept") != std::string::npos);
  CHECK(same.said.find("2 x 2619 MHz x 5120 bits / 8") != std::string::npos);

  // This device is half of the one before, at half the clocks.
  facts.sms = 66;
  facts.clock_mhz = 990;
  facts.bus_bits = 2560;
  facts.shared_bytes = 101376;
  const Machine half = native(facts).machine;
  CHECK(half.workers == 66);
  CHECK(half.ring_stages == 4);
  CHECK(half.peak_bytes_per_ns == doctest::Approx(3352.3 / 2).epsilon(1e-3));
  CHECK(burst_ns(half, 1e9) > 1.9 * burst_ns(h100, 1e9));
}

TEST_CASE("the nearest description is that of the reading rate where multiprocessors are the same") {
  mkrt::DeviceFacts facts = facts_of("NVIDIA GH200 144G HBM3e");
  facts.memory_mhz = 3201, facts.bus_bits = 6144;  // reading rate of 4.9 TB/s
  CHECK(native(facts).said.find("derived from h200") != std::string::npos);
  facts.sms = 110, facts.memory_mhz = 1600, facts.bus_bits = 5120;
  CHECK(native(facts).said.find("derived from h100-pcie") != std::string::npos);
}

TEST_CASE("what a driver does not give is a guess, and called so") {
  mkrt::DeviceFacts facts = facts_of("NVIDIA Something");
  facts.memory_mhz = 0, facts.clock_mhz = 0, facts.l2_bytes = 0;
  const NativeMachine found = native(facts);
  CHECK(found.machine.l2_bytes == load_machine("h100").value().l2_bytes);
  CHECK(found.said.find("guess, as the driver gives no memory clock or bus") != std::string::npos);
  CHECK(found.machine.json.find("guess: h100's; the driver gives none") != std::string::npos);
}

TEST_CASE("a device that holds no ring is refused") {
  mkrt::DeviceFacts facts = facts_of("NVIDIA Small");
  facts.shared_bytes = 65536;
  CHECK(fault_of(facts) ==
        "NVIDIA Small: error: a block may have 65536 bytes of shared memory, expected at least 101376 for a "
        "ring "
        "of 4 stages");
}

TEST_CASE("what doctor measured goes before a kept description, and nothing else does") {
  const mkrt::DeviceFacts facts = facts_of("NVIDIA H100 80GB HBM3");
  const NativeMachine found = native(
      facts,
      R"({"device": "x", "figures": {"notify_ns": {"value": 812, "source": "measured by mkc doctor"}}})");
  CHECK(found.machine.notify_ns == 812);
  CHECK(found.machine.stream_bytes_per_ns == load_machine("h100").value().stream_bytes_per_ns);
  CHECK(found.said.find("measured by mkc doctor on this device: notify_ns") != std::string::npos);
  CHECK(fault_of(facts, "[]") == "measured figures: error: not a file of mkc doctor");
  CHECK(fault_of(facts, R"({"figures": {"workers": {"value": 1, "source": "x"}}})") ==
        "measured figures: error: 'workers' is no figure that mkc doctor measures");
  CHECK(fault_of(facts, R"({"figures": {"notify_ns": {"value": -1, "source": "x"}}})") ==
        "machine of NVIDIA H100 80GB HBM3: error: notify_ns must be a positive number, not -1");
}

}  // namespace
}  // namespace mkc
