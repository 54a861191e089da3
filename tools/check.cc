#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/verify.h"
#include "runtime/base/file.h"
#include "scheduler/machine/machine.h"
#include "scheduler/proof/prove.h"
#include "tools/commands.h"
#include "tools/output.h"

namespace mkc {
namespace {

constexpr size_t kMaxTextBytes = size_t{256} << 20;

// Holds the ring against the machine that the schedule names, where its description is built in.
Status check_machine(const Schedule& schedule, const Places& places) {
  if (std::ranges::count(machine_names(), schedule.machine) == 0) return {};
  MKC_TRY(machine, load_machine(schedule.machine));
  if (machine.is_processor() || schedule.ring.stages <= machine.ring_stages) return {};
  return error_about({Part::kRing},
                     fmt::format("the ring has {} stages, expected at most {}, the stages of machine {}",
                                 schedule.ring.stages, machine.ring_stages, machine.name),
                     &places);
}

Status check(const std::string& path, bool json) {
  const mkrt::Result<std::string> text = mkrt::read_text(path, kMaxTextBytes);
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
    if (json)
      print_out("{}\n",
                json_text(nlohmann::ordered_json{{"file", path}, {"level", level_of(module.value())}}, 1));
    else
      print_out("{}: valid {}\n", path, level_of(module.value()));
    return {};
  }
  MKC_TRY(proof, prove(*schedule, &places));
  if (Status status = check_machine(*schedule, places); !status.ok()) return status;
  const std::string proved = to_string(proof, *schedule);
  if (json)
    print_out("{}\n",
              json_text(nlohmann::ordered_json{{"file", path}, {"level", "schedule"}, {"proof", proved}}, 1));
  else
    print_folded(2, "{}: valid schedule; {}\n", path, proved);
  return {};
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("check", "verify a .mkir file, and prove it where it is a schedule");
  struct Arguments {
    std::string path;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  command->add_option("FILE", a->path, "a .mkir file of any level")->type_name("FILE")->required();
  command->add_flag("--json", a->json, "print JSON");
  command->callback([a, &action] { action = [a] { return check(a->path, a->json); }; });
}

}  // namespace mkc
