#include <fmt/format.h>

#include "ir/verify.h"
#include "runtime/file.h"
#include "scheduler/prove.h"
#include "tools/commands.h"

namespace mkc {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;

const char* level_of(const Module& module) {
  static constexpr const char* kLevels[] = {"ops", "tasks", "schedule"};
  return kLevels[module.index()];
}

Status check(const std::string& path) {
  const mkrt::Result<std::string> text = mkrt::read_text(path, kMaxBytes);
  if (!text.ok()) return text.error();
  Places places;
  const Result<Module> module = parse_mkir(text.value(), path, &places);
  if (!module.ok()) return module.error();
  const std::vector<Error> errors = verify(module.value(), &places);
  std::string all;
  for (const Error& e : errors) all += (all.empty() ? "" : "\n") + e.message;
  if (!errors.empty()) return Error{all};
  const Schedule* schedule = std::get_if<Schedule>(&module.value());
  if (!schedule) {
    fmt::print("{}: valid {}\n", path, level_of(module.value()));
    return {};
  }
  const Result<ProofReport> proof = prove(*schedule);
  if (!proof.ok()) return Error{fmt::format("{}: {}", path, proof.error().message)};
  fmt::print("{}: valid schedule; {}\n", path, to_string(proof.value(), *schedule));
  return {};
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("check", "verify a .mkir file, and prove it where it is a schedule");
  auto path = std::make_shared<std::string>();
  command->add_option("FILE", *path, "a .mkir file of any level")->required();
  command->callback([path, &action] { action = [path] { return check(*path); }; });
}

}  // namespace mkc
