#include "scheduler/machine/machine.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/abi/packing.h"

namespace mkc {
namespace {

// Writes the h100 description with one piece of text replaced, and returns the file's path.
std::string changed_h100(const std::string& from, const std::string& to) {
  std::ifstream in(MKC_SOURCE_DIR "/scheduler/machine/h100.json");
  std::stringstream text;
  text << in.rdbuf();
  std::string changed = text.str();
  REQUIRE(changed.find(from) != std::string::npos);
  changed.replace(changed.find(from), from.size(), to);
  const std::string path = MKC_BINARY_DIR "/changed_h100.json";
  std::ofstream(path) << changed;
  return path;
}

std::string load_error(const std::string& name_or_path) {
  const Result<Machine> machine = load_machine(name_or_path);
  REQUIRE_FALSE(machine.ok());
  std::string message = machine.error().message;
  const std::string folder = MKC_BINARY_DIR "/";
  if (message.starts_with(folder)) message.erase(0, folder.size());
  return message.substr(0, message.find('\n'));  // the line of the file follows
}

TEST_CASE("every built-in machine loads and its ring fits beside barriers and scratch") {
  for (const std::string& name : machine_names()) {
    CAPTURE(name);
    const Result<Machine> machine = load_machine(name);
    REQUIRE(machine.ok());
    CHECK(machine.value().name == name);
    CHECK(machine.value().ring_stages * mkrt::kStageBytes + 35 * 1024 <= machine.value().shared_bytes);
  }
}

TEST_CASE("a target's default machine is the first that has it") {
  CHECK(machine_for_target("sm_90a").value().name == "h100");
  CHECK(machine_for_target("sm_80").value().name == "a100");
  CHECK(machine_for_target("sm_86").value().name == "rtx3090");
  CHECK(machine_for_target("sm_89").value().name == "rtx4090");
  CHECK(machine_for_target("sm_100a").value().name == "b200");
  CHECK(machine_for_target("sm_120").value().name == "rtx5090");
  CHECK(machine_for_target("sm_121").value().name == "gb10");
  CHECK(machine_for_target("emulator").value().ring_stages == 6);
  CHECK(machine_for_target("sm_70").error().message ==
        "error: no machine description for target 'sm_70'; known targets: sm_90a, sm_80, sm_86, sm_89, "
        "sm_100a, sm_120, sm_121, emulator, x86-64-v3, x86-64-avx512, x86-64-v4, x86-64-amx");
}

TEST_CASE("a cold burst takes the measured time at the measured sizes and never less than a smaller one") {
  const Machine h100 = load_machine("h100").value();
  CHECK(burst_ns(h100, 0) == 0);
  CHECK(burst_ns(h100, 32e6) == doctest::Approx(32e6 / 2100));
  CHECK(burst_ns(h100, 512e6) == doctest::Approx(256e6 / 2950 + 256e6 / 3140));
  double before_ns = 0;
  for (double bytes = 1e5; bytes < 1e9; bytes *= 1.3) {
    CHECK(burst_ns(h100, bytes) >= before_ns);
    before_ns = burst_ns(h100, bytes);
  }
}

TEST_CASE("a machine at an end of its ranges has short times and high rates, or long ones and low ones") {
  for (const std::string& name : machine_names()) {
    CAPTURE(name);
    const Machine m = load_machine(name).value();
    const Machine fast = machine_at(m, RangeEnd::kFast).value(),
                  slow = machine_at(m, RangeEnd::kSlow).value();
    CHECK(fast.notify_ns <= m.notify_ns);
    CHECK(m.notify_ns <= slow.notify_ns);
    CHECK(fast.attend_bytes_per_ns >= m.attend_bytes_per_ns);
    CHECK(m.attend_bytes_per_ns >= slow.attend_bytes_per_ns);
    CHECK(fast.workers == slow.workers);
    CHECK((hop_ns(fast) < hop_ns(slow)) == m.is_gpu());
  }
  const Machine h100 = load_machine("h100").value(), slow = machine_at(h100, RangeEnd::kSlow).value();
  CHECK(slow.notify_ns == 1000);
  CHECK(slow.code_cache_bytes == 98304);
  CHECK(machine_at(h100, RangeEnd::kFast).value().instruction_ns == 0.75);
}

TEST_CASE("every estimate of a GPU's description has a range") {
  for (const std::string& name : machine_names()) {
    const auto description = nlohmann::json::parse(load_machine(name).value().json);
    if (!load_machine(name).value().is_gpu()) continue;
    for (const auto& [key, figure] : description.items()) {
      CAPTURE(name + ": " + key);
      const bool is_time = key.ends_with("_ns") && !key.ends_with("bytes_per_ns");
      if (is_time) CHECK(figure.contains("range"));
    }
  }
}

TEST_CASE("faulty descriptions are refused with the key that is wrong") {
  CHECK(load_error("h10") ==
        "error: unknown machine 'h10', did you mean 'h100'?; known: h100, h200, h100-pcie, h100-nvl, a100, "
        "a100-40, rtx3090, a10, rtx4090, l4, l40s, b200, rtx5090, gb10, emulator, x86-64-v3, x86-64-avx512, "
        "x86-64-v4, x86-64-amx");
  CHECK(load_error("no/such.json") == "no/such.json: error: cannot be read");
  CHECK(load_error("/dev/zero") == "/dev/zero: error: is not a regular file");
  CHECK(load_error(changed_h100("{", "["))
            .starts_with("changed_h100.json: error: not JSON: parse error at line 2, column 9: "));
  CHECK(load_error(changed_h100("\"devices\": [", "\"devices\": [" + std::string(200000, '['))) ==
        "changed_h100.json: error: nested more than 64 levels deep");
  CHECK(load_error(changed_h100("\"target\"", "\"name\"")) ==
        "changed_h100.json: error: key \"name\" is given twice");
  const std::string empty = MKC_BINARY_DIR "/empty_machine.json";
  std::ofstream{empty};
  CHECK(load_error(empty).starts_with(
      "empty_machine.json: error: not JSON: parse error at line 1, column 1: "));
  CHECK(load_error(changed_h100("\"target\"", "\"tarqet\"")) ==
        "changed_h100.json: error: missing key 'target'");
  CHECK(load_error(changed_h100("\"name\"", "\"size\": 1, \"name\"")) ==
        "changed_h100.json:2:3: error: unknown key 'size'");
  CHECK(load_error(changed_h100("\"value\": 132", "\"value\": 0")) ==
        "changed_h100.json:6:3: error: workers must be a whole number from 1 to 4096, not 0");
  CHECK(load_error(changed_h100("\"value\": 132, \"source\"", "\"value\": 132, \"sauce\"")) ==
        "changed_h100.json:6:3: error: workers must be an object with a value, a source and perhaps a range, "
        "not {\"sauce\":\"NVIDIA H100 SXM5 data sheet\",\"value\":132}");
  CHECK(
      load_error(changed_h100("[500, 1000]", "[700, 1000]")) ==
      "changed_h100.json:20:3: error: range of notify_ns must be two positive numbers around its value, not "
      "[700,1000]");
  CHECK(
      load_error(changed_h100("[500, 1000]", "[500]")) ==
      "changed_h100.json:20:3: error: range of notify_ns must be two positive numbers around its value, not "
      "[500]");
  CHECK(load_error(changed_h100("\"value\": 650", "\"value\": -1")) ==
        "changed_h100.json:20:3: error: notify_ns must be a positive number, not -1");
  CHECK(load_error(changed_h100("\"value\": 650", "\"value\": 0")) ==
        "changed_h100.json:20:3: error: notify_ns must be a positive number, not 0");
  CHECK(load_error(changed_h100("\"value\": 1980", "\"value\": 1e308")) ==
        "changed_h100.json:5:3: error: clock_mhz must be from 1e-06 to 1e+12, not 1e+308");
  CHECK(load_error(changed_h100("\"value\": 1980", "\"value\": 5e-324")) ==
        "changed_h100.json:5:3: error: clock_mhz must be from 1e-06 to 1e+12, not 5e-324");
  CHECK(load_error(changed_h100("[500, 1000]", "[500, 1e308]")) ==
        "changed_h100.json:20:3: error: range of notify_ns must be from 1e-06 to 1e+12, not 1e+308");
  CHECK(load_error(changed_h100("[8000000", "[1e-300")) ==
        "changed_h100.json:17:3: error: cold_burst must be from 1e-06 to 1e+12, not 1e-300");
  CHECK(load_error(changed_h100("[8000000", "[1000000")) ==
        "changed_h100.json:17:3: error: cold_burst must be a list of [bytes, bytes_per_ns] pairs, rising in "
        "bytes, not "
        "[[2000000,320],[1000000,1000],[16000000,1600],[32000000,2100],[64000000,2500],[128000000,2800],["
        "256000000,2950]]");
  CHECK(load_error(changed_h100("\"value\": 12,", "\"value\": 3,")) ==
        "changed_h100.json:8:3: error: ring_stages must be 4 to 16, not 3");
  CHECK(load_error(changed_h100("\"value\": 12,", "\"value\": 13,")) ==
        "changed_h100.json:8:3: error: a ring of 13 stages needs 248832 bytes of shared memory with barriers "
        "and "
        "scratch, "
        "232448 are usable");
  CHECK(load_error(changed_h100("\"h100\"", "7")) ==
        "changed_h100.json:2:3: error: name must be a string, not 7");
  CHECK(load_error(changed_h100("\"h100\"", "[\"" + std::string(300, 'x') + "\"]")) ==
        "changed_h100.json:2:3: error: name must be a string, not a value of 304 bytes");
  CHECK(load_error(changed_h100("\"devices\": [", "\"devices\": [1, ")) ==
        "changed_h100.json:4:3: error: devices must be a list of strings, not [1,\"NVIDIA H100 80GB HBM3\"]");
  // Members of figures have this key, too, and a text equals it.
  for (const char* key : {"\"value\"", "\"val\\u0075e\"", "\"value\" \n"})
    CHECK(load_error(changed_h100("\"reduce_ns\"", fmt::format("{}: \"value\", \"reduce_ns\"", key))) ==
          "changed_h100.json:18:3: error: unknown key 'value'");
  // The parser stops at a zero byte.
  const std::string text = "{\"name\": 7}" + std::string("\0{\"\\q\": \"", 9);
  CHECK(read_machine(text, "m", text)
            .error()
            .message.starts_with("m:1:2: error: name must be a string, not 7\n"));
  const std::string empty_text = "{}" + text.substr(text.find('\0'));
  CHECK(read_machine(empty_text, "m", empty_text).error().message == "m: error: missing key 'name'");
}

}  // namespace
}  // namespace mkc
