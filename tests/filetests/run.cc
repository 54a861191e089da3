// A file test's passes run on its program.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/fields.h"
#include "frontend/yaml.h"
#include "ir/verify.h"
#include "scheduler/machine/machine.h"
#include "tests/filetests/file_test.h"
#include "tests/mkir_files.h"
#include "tools/passes.h"

namespace mkc::test {
namespace {

using Kind = Node::Kind;
using Passes = std::vector<const Pass*>;

// Returns the comments that the file begins with as YAML, each value at its place in the file.
Result<Document> read_head(const FileTest& test) {
  std::string yaml;
  for (const std::string& line : split_lines(test.input)) {
    if (!line.starts_with("//")) break;
    yaml += "  " + line.substr(2) + "\n";
  }
  MKC_TRY(document, parse_yaml({test.name, yaml}));
  MKC_TRY_STATUS(
      check_keys(document, document.root, "the head", {"passes", "machine", "schedule", "keep_activations"}));
  return std::move(document);
}

// Returns the level that a pass takes; "" for a pass that takes none.
std::string level_taken(const Pass& pass) {
  std::string level;
  for (const Pass* p = passes().data(); p != &pass; ++p)
    if (*p->makes) level = p->makes;
  return level;
}

Result<Passes> read_passes(const FileTest& test, const Document& head) {
  MKC_TRY(list, required_field(head, head.root, "the head", "passes", Kind::kList));
  MKC_TRY(names, string_list(head, *list));
  Passes found;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto pass = std::ranges::find(passes(), names[i], &Pass::name);
    if (pass == passes().end() || level_taken(*pass).empty())
      return head.error(list->items[i].place, fmt::format("no pass {} takes a program", names[i]));
    found.push_back(&*pass);
  }
  if (names.empty() || names.back() != test.path.parent_path().filename())
    return head.error(list->place, "the last pass is another than the folder's");
  return found;
}

Status read_settings(const Document& head, Compilation& c) {
  MKC_TRY(machine, optional_field(head, head.root, "machine", Kind::kString));
  MKC_TRY(loaded, load_machine(machine ? machine->string : "emulator"));
  c.machine = std::move(loaded);
  ModelOptions options;
  options.scheduler = Scheduler::kStatic;
  if (const Node* schedule = find(head.root, "schedule"))
    MKC_TRY_STATUS(read_schedule(head, *schedule, options));
  set_schedule(c.request, options);
  MKC_TRY(keep, optional_field(head, head.root, "keep_activations", Kind::kBool));
  c.keep_activations = keep && keep->boolean;
  return {};
}

Status first_of(const std::vector<Error>& errors) {
  return errors.empty() ? Status() : errors.front();
}

Status read_program(const FileTest& test, Compilation& c) {
  Places places;
  MKC_TRY(module, parse_mkir(test.input, test.name, &places));
  MKC_TRY_STATUS(first_of(verify(module, &places)));
  c.module = std::move(module);
  return {};
}

// Runs one pass. The proof may refuse the schedule of a file, while it is a bug if place() made the schedule.
Status run_one(const Pass& pass, Compilation& c) {
  if (pass.name != std::string_view("prove")) return pass.run(c);
  MKC_TRY(report, prove(c.schedule()));
  c.proof = report;
  return {};
}

// Returns the status, with the file and the pass in its error.
Status after(const FileTest& test, const Pass& pass, const Status& status) {
  if (status.ok()) return {};
  return Error{fmt::format("{}: after {}: {}", test.name, pass.name, status.error().message)};
}

// Runs the passes after `last`, so that no output can be blessed that cannot be proved.
Status run_rest(const Pass& last, Compilation& c) {
  for (const Pass& pass : passes())
    if (&pass > &last && pass.name != std::string_view("search")) MKC_TRY_STATUS(run_one(pass, c));
  return {};
}

std::string lines_of_search(const Compilation& c) {
  std::string out = fmt::format("// schedule: {}\n", schedule_yaml(c.request));
  for (const Tried& tried : c.found.tried) {
    const Settings& settings = tried.candidate.settings;
    out += "// tried";
    for (const SplitRule& rule : split_rules(settings)) out += " " + rule.grids;
    for (const PlacementRule& rule : placement_rules(settings)) out += " " + rule.grids;
    out += fmt::format(" {}: {}\n", tried.candidate.how, tried.figures);
  }
  return out;
}

std::string lines_of_events(const Compilation& c) {
  std::string out;
  const auto& events = std::get<TaskProgram>(c.module).events;
  for (const EventId e : events.ids())
    out += fmt::format("// @{}: {}\n", events[e].name, c.event_reasons[e.index]);
  return out;
}

std::string lines_of_rows(const Compilation& c) {
  std::string out;
  for (const auto& [grid, reason] : c.unfused) out += fmt::format("// %{} is not fused: {}\n", grid, reason);
  return out;
}

// Returns what a pass says beside its module, as comments.
std::string remarks(std::string_view pass, const Compilation& c) {
  if (pass == "fuse") return lines_of_rows(c);
  if (pass == "search") return lines_of_search(c);
  if (pass == "events") return lines_of_events(c);
  if (pass == "prove") return fmt::format("// {}\n", to_string(c.proof, c.schedule()));
  return "";
}

}  // namespace

Result<std::string> run_file_test(const FileTest& test) {
  Compilation c;
  MKC_TRY(head, read_head(test));
  MKC_TRY(pipeline, read_passes(test, head));
  MKC_TRY_STATUS(read_settings(head, c));
  MKC_TRY_STATUS(read_program(test, c));
  for (const Pass* pass : pipeline) {
    if (level_of(c.module) != level_taken(*pass))
      return Error{fmt::format("{}: error: {} takes {}, found {}", test.name, pass->name, level_taken(*pass),
                               level_of(c.module))};
    if (const Status status = run_one(*pass, c); !status.ok()) return status.error().message + "\n";
    MKC_TRY_STATUS(after(test, *pass, first_of(verify(c.module))));
  }
  const Pass& last = *pipeline.back();
  std::string output = (*last.makes ? text_of(c.module) : "") + remarks(last.name, c);
  MKC_TRY_STATUS(after(test, last, run_rest(last, c)));
  return output;
}

}  // namespace mkc::test
