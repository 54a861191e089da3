#include "tests/softgpu/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "tests/softgpu/defects.h"

namespace softgpu {
namespace {

constexpr std::string_view kNames[] = {
    "SOFTGPU_CC",         "SOFTGPU_SMS",     "SOFTGPU_SEED",   "SOFTGPU_RACES",    "SOFTGPU_KEEP_GOING",
    "SOFTGPU_WEAK",       "SOFTGPU_QUANTUM", "SOFTGPU_SPLITS", "SOFTGPU_COPIES",   "SOFTGPU_HOLD",
    "SOFTGPU_EXACT_SUMS", "SOFTGPU_PTX",     "SOFTGPU_PTXAS",  "SOFTGPU_COVERAGE", "SOFTGPU_BANKS",
    "SOFTGPU_STATS",      "SOFTGPU_BREAK",   "SOFTGPU_SAYS",   "SOFTGPU_L2",       "SOFTGPU_BUS"};

constexpr std::string_view kSayings[] = {
    "cuInit", "cuDevicePrimaryCtxRetain", "cuModuleLoadData", "driver", "compute_mode", "free", "clock_mhz"};

// Reads a whole text as a number of at most `max`. Returns false where it is none.
bool read_number(const char* text, uint64_t max, uint64_t& value) {
  char* end = nullptr;
  errno = 0;
  value = std::strtoull(text, &end, 0);
  return std::isdigit(static_cast<unsigned char>(*text)) && *end == 0 && errno == 0 && value <= max;
}

// Returns the number that a variable holds, and notes the error of one that holds something else.
uint64_t number(const char* name, uint64_t otherwise, uint64_t max, std::string& error) {
  const char* text = std::getenv(name);
  if (!text || !*text) return otherwise;
  uint64_t value = 0;
  if (!read_number(text, max, value))
    error = std::string(name) + " is " + text + ", expected a number of at most " + std::to_string(max);
  return value;
}

// Notes the error of a variable whose name begins like one of these and is none.
void check_names(std::string& error) {
  for (char** at = environ; *at; ++at) {
    const std::string_view name(*at, std::strcspn(*at, "="));
    if (name.starts_with("SOFTGPU_") && std::ranges::find(kNames, name) == std::end(kNames))
      error = std::string(name) + " is no variable of the software GPU (docs/softgpu.md)";
  }
}

// Returns the names of sayings as a text.
std::string all_sayings() {
  std::string all;
  for (const std::string_view name : kSayings) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

// Returns the pairs of a text like "cuInit=803,free=1000", and notes the error of one that is none.
std::map<std::string, uint64_t> numbers_by_name(const std::string& text, std::string& error) {
  std::map<std::string, uint64_t> numbers;
  std::stringstream pairs(text);
  for (std::string pair; std::getline(pairs, pair, ',');) {
    const size_t at = pair.find('=');
    const std::string name = pair.substr(0, at), value = at == pair.npos ? "" : pair.substr(at + 1);
    if (std::ranges::find(kSayings, name) == std::end(kSayings))
      error = "SOFTGPU_SAYS names " + name + ", expected one of " + all_sayings();
    else if (!read_number(value.c_str(), UINT64_MAX, numbers[name]))
      error = "SOFTGPU_SAYS gives " + name + " the value '" + value + "', expected a number";
  }
  return numbers;
}

// Notes the error of a file that is not there or empty.
void check_ptx(std::string& error) {
  const char* path = std::getenv("SOFTGPU_PTX");
  if (path && std::ifstream(path).peek() == std::ifstream::traits_type::eof())
    error = std::string("SOFTGPU_PTX is ") + path + ", expected a file with PTX";
}

}  // namespace

uint64_t Settings::said(const std::string& name, uint64_t otherwise) const {
  const auto at = says.find(name);
  return at == says.end() ? otherwise : at->second;
}

Settings settings_of_environment() {
  Settings s;
  const auto word = [&](const char* name, uint32_t otherwise) {
    return static_cast<uint32_t>(number(name, otherwise, UINT32_MAX, s.error));
  };
  const uint32_t capability = word("SOFTGPU_CC", 0);
  if (capability) s.major = capability / 10, s.minor = capability % 10;
  s.sms = word("SOFTGPU_SMS", s.sms);
  if (s.sms == 0 && s.error.empty()) s.error = "SOFTGPU_SMS is 0, expected 1 or more";
  s.seed = number("SOFTGPU_SEED", s.seed, UINT64_MAX, s.error);
  s.quantum = word("SOFTGPU_QUANTUM", s.quantum);
  s.any_split = word("SOFTGPU_SPLITS", s.any_split);
  s.hold_turns = std::max(1u, word("SOFTGPU_HOLD", s.hold_turns));
  s.copy_turns = word("SOFTGPU_COPIES", s.copy_turns);
  s.weak = word("SOFTGPU_WEAK", s.weak);
  s.races = word("SOFTGPU_RACES", s.races);
  s.keep_going = word("SOFTGPU_KEEP_GOING", s.keep_going);
  s.statistics = word("SOFTGPU_STATS", s.statistics);
  if (const char* path = std::getenv("SOFTGPU_COVERAGE")) s.coverage = path;
  if (const char* path = std::getenv("SOFTGPU_BANKS")) s.banks = path;
  s.exact_sums = word("SOFTGPU_EXACT_SUMS", s.exact_sums);
  s.l2_bytes = number("SOFTGPU_L2", s.l2_bytes, UINT64_MAX, s.error);
  s.bus_bits = word("SOFTGPU_BUS", s.bus_bits);
  if (const char* defect = std::getenv("SOFTGPU_BREAK")) s.defect = defect;
  if (!is_defect(s.defect))
    s.error =
        "SOFTGPU_BREAK is " + s.defect + ", expected acquire, release, or how an instruction's name begins";
  check_names(s.error);
  if (const char* pairs = std::getenv("SOFTGPU_SAYS")) s.says = numbers_by_name(pairs, s.error);
  check_ptx(s.error);
  return s;
}

}  // namespace softgpu
