// A model's description is parsed here.
#include "frontend/generation.h"
#include "frontend/json.h"
#include "frontend/op_graph.h"
#include "frontend/yaml.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "scheduler/machine/machine.h"
#include "scheduler/proof/prove.h"
#include "tests/attack/fuzz/parsers.h"

namespace mkc::attack {
namespace {

constexpr size_t kPrintedBytes = 1 << 16;

std::string printed(const Module& module) {
  return std::visit([](const auto& level) { return print(level); }, module);
}

}  // namespace

void run_family(std::string_view input) {
  Source source{"family.yaml", std::string(input)};
  if (!check_text(source).ok()) return;
  Result<Document> document = parse_yaml(std::move(source));
  if (document.ok()) (void)read_family(std::move(document.value()));
}

void run_model_file(std::string_view input) {
  static const std::string config = put_file("config.json", config_seeds().front());
  const Result<CompileRequest> request = read_request(put_file("model.yaml", input));
  if (!request.ok()) return;
  const std::string text = resolved_yaml(request.value());
  const Result<CompileRequest> again = read_request(put_file("again.yaml", text));
  promise(again.ok(), "a resolved model.yaml can be read again");
}

void run_config(std::string_view input) {
  put_file("config.json", input);
  const Result<CompileRequest> request = read_request(folder());
  if (!request.ok()) return;
  const Result<OpGraph> graph = build_op_graph(request.value(), {});
  if (graph.ok()) (void)verify(graph.value());
}

void run_mkir(std::string_view input) {
  Places places;
  const Result<Module> module = parse_mkir(input, "input.mkir", &places);
  if (!module.ok() || !verify(module.value(), &places).empty()) return;
  if (input.size() < kPrintedBytes) {
    const Result<Module> again = parse_mkir(printed(module.value()), "again.mkir");
    promise(again.ok() && again.value() == module.value(), "a valid module is read back as it was printed");
  }
  if (const auto* schedule = std::get_if<Schedule>(&module.value())) (void)prove(*schedule);
}

void run_generation(std::string_view input) {
  static const Result<Document> config = parse_json({"config.json", config_seeds().front()});
  promise(config.ok(), "a fixture's config.json can be read");
  put_file("generation/generation_config.json", input);
  (void)read_generation(folder() + "/generation", config.value());
}

void run_machine(std::string_view input) {
  (void)read_machine(input, "machine.json", input);
}

std::vector<std::string> generation_seeds() {
  std::vector<std::string> seeds = files_of("models", "generation_config.json");
  seeds.push_back(
      R"({"do_sample": true, "eos_token_id": [1, 2], "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1})");
  return seeds;
}

std::vector<std::string> machine_seeds() {
  return files_of("scheduler/machine", ".json");
}

std::vector<std::string> family_seeds() {
  return files_of("models", ".yaml");
}

std::vector<std::string> model_file_seeds() {
  return {
      "checkpoint: .\ntarget: sm_90a\nlimits: {tokens: 16, requests: 4, context: 64}\nkv: {dtype: e4m3}\n",
      "checkpoint: .\nschedule:\n  workers: 4\n  batch_invariant: true\n  wgmma_from: 65\n  ring: 8\n"
      "  scheduler: dynamic\n  placement: {\"l*.q\": range, \"l0.k\": queue}\n  split: {\"l*.down\": 2}\n"};
}

std::vector<std::string> config_seeds() {
  return files_of("tests/fixtures", "config.json");
}

std::vector<std::string> mkir_seeds() {
  return files_of("tests/mkir", ".mkir");
}

}  // namespace mkc::attack
