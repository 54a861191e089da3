#include "tools/native.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <string>

#include "codegen/cache.h"
#include "codegen/targets.h"
#include "runtime/artefact/manifest.h"
#include "runtime/base/file.h"
#include "tools/artefact.h"

namespace mkc {

namespace {

constexpr size_t kMaxText = 1 << 20;  // bytes of a file of measurements

std::string file_name(const std::string& name) {
  std::string out;
  for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return out;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

constexpr size_t kMaxProcessorsText = 40;  // bytes of a list that a file's name holds itself

// Returns a list of processors as part of a file's name. A long one is told by its hash.
std::string processors_part(const mkrt::ProcessorFacts& facts) {
  std::string list = mkrt::processors_text(facts);
  if (list.size() > kMaxProcessorsText) return "-" + mkrt::hash_hex(list);
  for (char& c : list)
    if (c == ' ') c = '-';
  return list;
}

Error damaged(const std::string& path, const std::string& what) {
  return Error{fmt::format("{}{}\n--ignore-measured leaves out this file of mkc doctor",
                           what.starts_with(path) ? "" : path + ": ", what)};
}

// Measured is what a file of measurements holds, or why it cannot be looked for. Both are "" without a file.
struct Measured {
  std::string text, unreachable;
};

// Reads a file of measurements. A folder that cannot be entered, such as that of another user, has none.
// Errors: the file is there, but cannot be read, or is empty.
Result<Measured> read_measured(const std::string& path) {
  using std::filesystem::file_type;
  if (path.empty()) return Measured{};
  std::error_code failed, not_entered;
  const file_type found = std::filesystem::status(path, failed).type();
  if (found == file_type::not_found) return Measured{};
  if (found == file_type::none) {
    if (std::filesystem::symlink_status(path, not_entered).type() == file_type::none)
      return Measured{"", fmt::format("{} cannot be reached: {}", path, not_entered.message())};
    return damaged(path, "error: cannot read: " + failed.message());
  }
  mkrt::Result<std::string> text = mkrt::read_text(path, kMaxText);
  if (!text.ok()) return damaged(path, text.error().message);
  if (text.value().empty()) return damaged(path, "error: is empty, expected what mkc doctor measured");
  return Measured{std::move(text.value()), ""};
}

}  // namespace

std::string measured_path(const mkrt::DeviceFacts& facts) {
  const std::string folder = default_cache().folder;
  if (folder.empty()) return "";
  return fmt::format("{}/devices/{}-{}.json", folder, file_name(facts.name),
                     facts.uuid.empty() ? "0" : facts.uuid);
}

std::string measured_path(const mkrt::ProcessorFacts& facts) {
  const std::string folder = default_cache().folder;
  if (folder.empty()) return "";
  return fmt::format("{}/devices/{}-cpu{}.json", folder, file_name(facts.model), processors_part(facts));
}

MeasuredOn this_processor(const mkrt::ProcessorFacts& facts) {
  return {facts.name, facts.model, mkrt::processors_text(facts), version()};
}

Result<NativeMachine> native_machine(bool ignore_measured) {
  const mkrt::Result<mkrt::DeviceFacts> facts = mkrt::ask_cuda();
  if (!facts.ok()) return facts.error();
  const Result<Target> target = target_of_capability(facts.value().major, facts.value().minor);
  if (!target.ok()) return Error{fmt::format("{}: error: {}", facts.value().name, target.error().message)};
  const std::string path = ignore_measured ? "" : measured_path(facts.value());
  MKC_TRY(measured, read_measured(path));
  Result<NativeMachine> native = machine_of_device(facts.value(), target.value().name, measured.text);
  if (!native.ok() && !measured.text.empty()) return damaged(path, native.error().message);
  if (native.ok()) native.value().driver = facts.value().driver;
  if (native.ok() && !measured.unreachable.empty())
    native.value().said += fmt::format("  {}\n", measured.unreachable);
  return native;
}

namespace {

// Says why a file that was made elsewhere is left out.
std::string made_elsewhere(const MeasuredOn& file, const MeasuredOn& here, const std::string& path) {
  const auto differs = [&](const std::string& a, const std::string& b, const char* what) {
    return a == b ? "" : fmt::format("{} is for {} {}, this is {}", path, what, a, b);
  };
  for (const std::string& why :
       {differs(file.device, here.device, "processor"), differs(file.model, here.model, "model"),
        differs(file.processors, here.processors, "processors"), differs(file.mkc, here.mkc, "mkc")})
    if (!why.empty()) return why;
  return "";
}

}  // namespace

Result<NativeMachine> processor_machine(const std::string& target, bool ignore_measured) {
  if (ignore_measured) return nominal_processor(target, "--ignore-measured");
  const mkrt::ProcessorFacts facts = mkrt::ask_processor();
  if (target > facts.target) return nominal_processor(target, "this processor does not run it");
  const std::string path = measured_path(facts);
  MKC_TRY(measured, read_measured(path));
  if (!measured.unreachable.empty()) return nominal_processor(target, measured.unreachable);
  if (measured.text.empty()) return nominal_processor(target, "mkc doctor --measure measures this processor");
  const Result<MeasuredOn> made = measured_on(measured.text);
  if (!made.ok()) return damaged(path, made.error().message);
  if (const std::string why = made_elsewhere(made.value(), this_processor(facts), path); !why.empty())
    return nominal_processor(target, why);
  Result<NativeMachine> machine =
      machine_of_processor(measured.text, target, {facts.threads, facts.machine_bytes});
  return machine.ok() ? std::move(machine) : damaged(path, machine.error().message);
}

Result<NativeMachine> machine_of(const std::string& name, const std::string& target, bool ignore_measured) {
  if (name.empty() && target.starts_with(kThisProcessor)) return processor_machine(target, ignore_measured);
  if (!name.empty() && exists(name)) {
    const mkrt::Result<std::string> text = mkrt::read_text(name, kMaxText);
    if (text.ok() && is_measured(text.value())) {
      Result<NativeMachine> machine = machine_of_processor(text.value(), target);
      return machine.ok() ? std::move(machine) : Error{fmt::format("{}: {}", name, machine.error().message)};
    }
  }
  Result<Machine> machine = name.empty() ? machine_for_target(target) : load_machine(name);
  if (!machine.ok()) return machine.error();
  return NativeMachine{std::move(machine.value()), ""};
}

}  // namespace mkc
