#include "tests/attack/models_report.h"

#include <algorithm>
#include <fstream>
#include <regex>

#include "tests/attack/bump.h"

namespace mkc::attack {
namespace {

using nlohmann::ordered_json;

constexpr size_t kDetail = 400;  // greatest length of what a finding says

// Returns the error without its numbers and places, so that equal ones are counted together.
std::string kind_of(const std::string& error) {
  static const std::regex kPath("^[^ ]*/[^ ]*:"), kNumber("[0-9]+");
  const std::string line = error.substr(0, error.find('\n'));
  return std::regex_replace(std::regex_replace(line, kPath, "PATH:"), kNumber, "N");
}

ordered_json empty_device() {
  return {{"seed", 0},
          {"next", 0},
          {"seconds", 0.0},
          {"families", ordered_json::object()},
          {"had", ordered_json::object()},
          {"refusals", ordered_json::object()},
          {"found", ordered_json::array()}};
}

void add_result(const CaseResult& r, ordered_json& family) {
  bump(family["cases"]);
  bump(family["compiled"], r.compiled);
  bump(family["runs"], r.runs);
  bump(family["rows"], r.rows);
  bump(family["bit rows"], r.bit_rows);
  bump(family["refused"], r.verdict == Verdict::kRefused);
  bump(family["second bounds"], r.second_bound);
  bump(family["findings"], is_finding(r.verdict));
  const double worst = family.value("worst", 0.0);
  family["worst"] = std::max(worst, is_finding(r.verdict) ? 0.0 : r.worst);
}

}  // namespace

bool is_finding(Verdict verdict) {
  return verdict != Verdict::kRight && verdict != Verdict::kRefused;
}

ModelsReport::ModelsReport(std::string file) : file_(std::move(file)) {
  if (std::ifstream in(file_); in && !file_.empty()) json_ = ordered_json::parse(in);
  for (const DeviceKind device : {DeviceKind::kProcessor, DeviceKind::kEmulator})
    if (!json_.contains(device_name(device))) json_[device_name(device)] = empty_device();
}

uint64_t ModelsReport::begin(DeviceKind device, uint64_t seed) {
  ordered_json& of = json_[device_name(device)];
  if (of["seed"] != seed) of["next"] = 0;
  of["seed"] = seed;
  return of["next"];
}

void ModelsReport::add(const ModelCase& c, const CaseResult& r, double seconds, const std::string& again) {
  ordered_json& of = json_[device_name(c.device)];
  of["next"] = c.number + 1;
  of["seconds"] = of["seconds"].get<double>() + seconds;
  add_result(r, of["families"][c.shape.family]);
  for (const std::string& feature : features_of(c)) bump(of["had"][feature]);
  if (!r.refusal.empty()) bump(of["refusals"][kind_of(r.refusal)]);
  if (is_finding(r.verdict))
    of["found"].push_back(
        {{"verdict", verdict_name(r.verdict)}, {"detail", r.detail.substr(0, kDetail)}, {"again", again}});
}

void ModelsReport::write() const {
  if (!file_.empty()) std::ofstream(file_) << json_.dump(1) << "\n";
}

}  // namespace mkc::attack
