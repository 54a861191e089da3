#include "scheduler/machine/measured.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace mkc {
namespace {

using json = nlohmann::ordered_json;

json figure(double value) {
  return {{"value", value}, {"source", "measured"}};
}

// Returns a file as mkc doctor --measure writes it, with figures of two round targets.
json file() {
  json f = {{"device", "AMD EPYC 9654 96-Core Processor"},
            {"model", "AuthenticAMD-25-17-1"},
            {"processors", "0-5,8"},
            {"mkc", "1.2.3"},
            {"seen", json::array()},
            {"left_out", json::object()}};
  f["figures"] = {{"workers", figure(7)},
                  {"memory_bytes", figure(1 << 30)},
                  {"stream_bytes_per_ns", {{"value", 50}, {"source", "measured"}, {"range", {40, 60}}}},
                  {"worker_bytes_per_ns", figure(20)},
                  {"peak_bytes_per_ns", figure(61)},
                  {"l2_bytes_per_ns", figure(200)},
                  {"notify_ns", {{"value", 90}, {"source", "measured"}, {"range", {80, 110}}}}};
  f["figures"]["workers"]["value"] = 7u;
  f["figures"]["memory_bytes"]["value"] = 1u << 30;
  const auto rates = [](double one) {
    json value;
    for (const char* name : {"f32", "f16", "bf16", "e4m3"}) value[name] = {one, 3 * one};
    return json{{"value", value}, {"source", "measured"}};
  };
  f["targets"]["x86-64-v4"] = {{"product_per_ns", rates(10)},
                               {"attend_per_ns", rates(20)},
                               {"product_stream_per_ns", rates(4)},
                               {"attend_stream_per_ns", rates(3)}};
  f["targets"]["x86-64-v3"] = {{"product_per_ns", rates(5)}};
  return f;
}

NativeMachine machine(const json& f, std::string_view target = "x86-64-v4") {
  Result<NativeMachine> found = machine_of_processor(f.dump(), target);
  REQUIRE_MESSAGE(found.ok(), (found.ok() ? "" : found.error().message));
  return found.value();
}

std::string refusal(const json& f, std::string_view target = "x86-64-v4") {
  const Result<NativeMachine> found = machine_of_processor(f.dump(), target);
  REQUIRE_FALSE(found.ok());
  return found.error().message;
}

TEST_CASE("measured figures go before nominal ones, and what was not measured stays nominal") {
  const NativeMachine found = machine(file());
  const Machine &m = found.machine, nominal = load_machine("x86-64-v4").value();
  CHECK(m.name == "amd-epyc-9654-96-core-processor");
  CHECK(m.devices == std::vector<std::string>{"AMD EPYC 9654 96-Core Processor"});
  CHECK(m.target == "x86-64-v4");
  CHECK(m.workers == 7);
  CHECK(m.memory_bytes == 1 << 30);
  CHECK(m.stream_bytes_per_ns == 50);
  CHECK(m.worker_bytes_per_ns == 20);
  CHECK(m.notify_ns == 90);
  CHECK(m.task_ns == nominal.task_ns);
  CHECK(m.l2_bytes == nominal.l2_bytes);
  CHECK(found.said ==
        "machine: measured on AMD EPYC 9654 96-Core Processor, processors 0-5,8, by mkc 1.2.3; nominal: "
        "l2_bytes, l2_ns, "
        "worker_l2_bytes_per_ns, load_ns\n");
  json f = file();
  f["targets"]["x86-64-v3"] = f["targets"]["x86-64-v4"];
  for (const char* key : {"l2_bytes", "l2_ns", "worker_l2_bytes_per_ns", "load_ns"})
    f["figures"][key] = json::parse(nominal.json)[key];
  CHECK(machine(f).said ==
        "machine: measured on AMD EPYC 9654 96-Core Processor, processors 0-5,8, by mkc 1.2.3\n");
  f["targets"]["x86-64-v4"].erase("attend_per_ns");
  f["figures"].erase("stream_bytes_per_ns");
  CHECK(machine(f).said.ends_with("; nominal: stream_bytes_per_ns, attend_per_ns\n"));
}

TEST_CASE("the threads and the memory of a process go before those of a file") {
  const Result<NativeMachine> found = machine_of_processor(file().dump(), "x86-64-v4", {3, 1 << 20});
  REQUIRE(found.ok());
  CHECK(found.value().machine.workers == 3);
  CHECK(found.value().machine.memory_bytes == 1 << 20);
}

TEST_CASE("one worker reads no faster than all, whichever of both rates is nominal") {
  const Machine nominal = load_machine("x86-64-v4").value();
  json f = file();
  f["figures"]["worker_bytes_per_ns"] = figure(10 * nominal.stream_bytes_per_ns);
  f["figures"].erase("stream_bytes_per_ns");
  Machine m = machine(f).machine;
  CHECK(m.stream_bytes_per_ns == 10 * nominal.stream_bytes_per_ns);
  CHECK(m.worker_bytes_per_ns == m.stream_bytes_per_ns);
  CHECK(machine_at(m, RangeEnd::kFast).ok());
  f = file();
  const double slow = nominal.worker_bytes_per_ns / 4;
  f["figures"]["stream_bytes_per_ns"] = {
      {"value", slow}, {"source", "measured"}, {"range", {slow / 2, 2 * slow}}};
  f["figures"].erase("worker_bytes_per_ns");
  m = machine(f).machine;
  CHECK(m.stream_bytes_per_ns == slow);
  CHECK(m.worker_bytes_per_ns == slow);
  CHECK(machine_at(m, RangeEnd::kSlow).value().worker_bytes_per_ns == slow / 2);
}

TEST_CASE("a measured stream has no ramp at either end of its range") {
  const Machine m = machine(file()).machine;
  CHECK(machine_at(m, RangeEnd::kFast).value().stream_bytes_per_ns == 60);
  CHECK(machine_at(m, RangeEnd::kSlow).value().notify_ns == 110);
  CHECK(burst_ns(m, 1e6) == doctest::Approx(1e6 / 50));
}

TEST_CASE("each target has the rates of its own loops") {
  const auto bf16 = static_cast<size_t>(mkrt::WeightType::kBf16);
  const Machine v4 = machine(file()).machine, v3 = machine(file(), "x86-64-v3").machine;
  CHECK(v4.product[bf16].one == 10);
  CHECK(v4.product[bf16].group == 30);
  CHECK(v4.attend[bf16].group == 60);
  CHECK(v4.product_stream[bf16].one == 4);
  CHECK(v4.attend_stream[bf16].group == 9);
  CHECK(v3.product[bf16].one == 5);
  CHECK(v4.group_tokens == 8);
  CHECK(v3.group_tokens == 4);
}

TEST_CASE("rates that were not measured agree with a faster stream than is nominal") {
  json f = file();
  f["figures"]["stream_bytes_per_ns"] = {{"value", 500}, {"source", "measured"}, {"range", {400, 600}}};
  f["figures"].erase("peak_bytes_per_ns");
  f["figures"].erase("l2_bytes_per_ns");
  const Machine m = machine(f).machine;
  CHECK(m.peak_bytes_per_ns == 600);
  CHECK(m.l2_bytes_per_ns == doctest::Approx(1.33 * 600));
  CHECK(machine_at(m, RangeEnd::kFast).ok());
}

TEST_CASE("a file of measurements says where it was made, and a description is none") {
  const Result<MeasuredOn> made = measured_on(file().dump());
  REQUIRE(made.ok());
  CHECK(made.value() ==
        MeasuredOn{"AMD EPYC 9654 96-Core Processor", "AuthenticAMD-25-17-1", "0-5,8", "1.2.3"});
  CHECK(is_measured(file().dump()));
  CHECK_FALSE(is_measured(load_machine("h100").value().json));
  CHECK_FALSE(is_measured("]"));
  const std::string deep =
      "{\"figures\": {\"notify_ns\": " + std::string(200000, '[') + std::string(200000, ']') + "}}";
  CHECK_FALSE(is_measured(deep));
  CHECK_FALSE(machine_of_processor(deep, "x86-64-v4").ok());
}

TEST_CASE("weights in half of the last-level cache come from there, and others from memory") {
  const Machine m = machine(file()).machine;
  CHECK(stay_in_cache(m, m.l2_bytes / 2));
  CHECK_FALSE(stay_in_cache(m, m.l2_bytes / 2 + 1));
  CHECK_FALSE(stay_in_cache(load_machine("h100").value(), 1));
  const Result<Machine> cached = with_weights_in_cache(m);
  REQUIRE(cached.ok());
  CHECK(cached.value().stream_bytes_per_ns == m.l2_bytes_per_ns);
  CHECK(cached.value().load_ns == m.l2_ns);
  const auto bf16 = static_cast<size_t>(mkrt::WeightType::kBf16);
  CHECK(cached.value().product_stream[bf16].group == m.product[bf16].group);
  CHECK(machine_at(cached.value(), RangeEnd::kFast).ok());
}

TEST_CASE("a measured range of the last-level cache is that of the stream from there") {
  json f = file();
  f["figures"]["l2_bytes_per_ns"] = {{"value", 200}, {"source", "measured"}, {"range", {150, 260}}};
  f["figures"]["worker_l2_bytes_per_ns"] = {{"value", 90}, {"source", "measured"}, {"range", {80, 95}}};
  const Machine m = machine(f).machine, cached = with_weights_in_cache(m).value();
  CHECK(machine_at(m, RangeEnd::kSlow).value().l2_bytes_per_ns == 150);
  CHECK(machine_at(cached, RangeEnd::kSlow).value().stream_bytes_per_ns == 150);
  CHECK(machine_at(cached, RangeEnd::kFast).value().stream_bytes_per_ns == 260);
  CHECK(machine_at(cached, RangeEnd::kSlow).value().worker_bytes_per_ns == 80);
}

TEST_CASE("a range of the last-level cache that reaches into the stream's is cut") {
  json f = file();
  for (const auto& range : {json{30, 260}, json{40, 70}, json{61, 61.5}}) {
    f["figures"]["l2_bytes_per_ns"] = {{"value", 61.2}, {"source", "measured"}, {"range", range}};
    const Machine m = machine(f).machine;
    for (const RangeEnd end : {RangeEnd::kFast, RangeEnd::kSlow}) {
      CHECK(machine_at(m, end).ok());
      CHECK(machine_at(with_weights_in_cache(m).value(), end).ok());
    }
  }
}

TEST_CASE("files that doctor did not write are refused") {
  const std::string foreign = "measured figures: error: not a file of mkc doctor --measure, expected ";
  CHECK(machine_of_processor("no JSON", "x86-64-v4")
            .error()
            .message.starts_with("measured figures: error: not JSON: parse error at line 1, column 2: "));
  CHECK(machine_of_processor("[]", "x86-64-v4").error().message == foreign + "an object");
  for (const char* key : {"device", "model", "processors", "mkc", "figures", "targets"}) {
    CAPTURE(key);
    json f = file();
    const bool is_object = f[key].is_object();
    const std::string expected = foreign + (is_object ? "the object '" : "the text '") + key + "'";
    f.erase(key);
    CHECK(refusal(f) == expected);
    f[key] = 1;
    CHECK(refusal(f) == expected);
  }
  json f = file();
  f["targets"].erase("x86-64-v4");
  CHECK(refusal(f) == "measured figures: error: no figures for x86-64-v4, found those for x86-64-v3");
  f = file();
  f["figures"]["task_ns"] = figure(1);
  CHECK(refusal(f) == "measured figures: error: 'task_ns' is no figure that mkc doctor --measure measures");
  f = file();
  f["figures"]["notify_ns"] = figure(-1);
  CHECK(refusal(f) == "measured figures: error: notify_ns must be a positive number, not -1.0");
  f = file();
  f["figures"]["stream_bytes_per_ns"] = 3;
  CHECK(refusal(f) ==
        "measured figures: error: stream_bytes_per_ns must be an object with a value, a source and perhaps a "
        "range, not 3");
  f = file();
  f["targets"]["x86-64-v4"]["product_per_ns"]["value"]["bf16"] = {1};
  CHECK(refusal(f) ==
        "measured figures: error: product_per_ns must have two or three positive numbers for bf16, not [1]");
  f["targets"]["x86-64-v4"]["product_per_ns"]["value"].erase("bf16");
  CHECK(refusal(f) ==
        "measured figures: error: product_per_ns must have two or three positive numbers for bf16, not null");
  f = file();
  f["targets"]["x86-64-v4"]["product_per_ns"]["value"]["bf61"] = {1, 2};
  CHECK(refusal(f) == "measured figures: error: product_per_ns has the unknown format 'bf61'");
  f["targets"]["x86-64-v4"]["product_per_ns"]["value"] = 5;
  CHECK(refusal(f) == "measured figures: error: product_per_ns must be an object of formats, not 5");
}

TEST_CASE("a nominal description says why no other was taken") {
  const Result<NativeMachine> nominal = nominal_processor("x86-64-v3", "nobody measured");
  REQUIRE(nominal.ok());
  CHECK(nominal.value().machine.name == "x86-64-v3");
  CHECK(nominal.value().said == "machine: nominal x86-64-v3: nobody measured\n");
}

}  // namespace
}  // namespace mkc
