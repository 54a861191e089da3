#include "runtime/text/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "runtime/base/json_node.h"
#include "runtime/text/utf8.h"

namespace mkrt {
namespace {

constexpr double kMaxGrowth = 64;
constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Returns the canonical decomposition of a text, with its combining marks not yet in order.
std::vector<utf8proc_int32_t> decompose(std::string_view text) {
  constexpr int kLongest = 4;  // code points of a canonical decomposition
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  while (!text.empty()) {
    utf8proc_int32_t parts[kLongest];
    int unused_bound_class = 0;
    const auto code_point = static_cast<utf8proc_int32_t>(first_code_point(text));
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(code_point, parts, kLongest, kOptions, &unused_bound_class);
    code_points.insert(code_points.end(), parts, parts + count);
    text.remove_prefix(scan_utf8(text).size);
  }
  return code_points;
}

// Sorts a run of combining marks by class. Marks of one class keep their order.
void order_run(std::span<utf8proc_int32_t> run) {
  struct Mark {
    int combining_class;
    size_t position;
    utf8proc_int32_t code_point;
  };
  std::vector<Mark> marks;
  for (const utf8proc_int32_t code_point : run)
    marks.push_back({combining_class(code_point), marks.size(), code_point});
  std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
    return std::tie(a.combining_class, a.position) < std::tie(b.combining_class, b.position);
  });
  std::transform(marks.begin(), marks.end(), run.begin(), [](const Mark& mark) { return mark.code_point; });
}

// Orders the marks of each run. utf8proc_decompose orders marks, too, but takes time quadratic in a run.
void order_marks(std::vector<utf8proc_int32_t>& code_points) {
  const auto is_mark = [](utf8proc_int32_t code_point) { return combining_class(code_point) != 0; };
  auto begin = code_points.begin();
  while (begin != code_points.end()) {
    begin = std::find_if(begin, code_points.end(), is_mark);
    const auto end = std::find_if_not(begin, code_points.end(), is_mark);
    if (end - begin > 1) order_run({begin, end});
    begin = end;
  }
}

std::string to_nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  std::vector<utf8proc_int32_t> code_points = decompose(text);
  order_marks(code_points);
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), kOptions);
  code_points.resize(static_cast<size_t>(count));
  std::string composed;
  for (const utf8proc_int32_t code_point : code_points)
    append_utf8(static_cast<char32_t>(code_point), composed);
  return composed;
}

// Returns the size of what a replacement makes of the first `front` bytes of a text.
size_t front_after(const ReplaceText& replace, std::string_view text, size_t front) {
  size_t size = 0;
  size_t done = 0;
  for (;;) {
    const size_t begin = text.substr(0, front + replace.from.size() - 1).find(replace.from, done);
    const size_t end = begin + replace.from.size();
    if (begin == std::string_view::npos || end > front) return size + std::min(begin, front) - done;
    size += begin - done + replace.to.size();
    done = end;
  }
}

size_t code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

struct Normalize {
  const NormalizedText& in;

  NormalizedText operator()(const Nfc&) const {
    NormalizedText out{to_nfc(in.text)};
    for (size_t left = code_points(to_nfc(std::string_view(in.text).substr(0, in.front))); left > 0; --left)
      out.front += scan_utf8(std::string_view(out.text).substr(out.front)).size;
    return out;
  }
  NormalizedText operator()(const PrependText& prepend) const {
    if (in.text.empty()) return {};
    return {prepend.text + in.text, in.front == 0 ? 0 : in.front + prepend.text.size()};
  }
  NormalizedText operator()(const ReplaceText& replace) const {
    return {replace_all(replace, in.text), front_after(replace, in.text, in.front)};
  }
};

Normalizer read_normalizer(const JsonNode& node) {
  const std::string type = node.at("type").one_of({"NFC", "Prepend", "Replace", "Sequence"});
  if (type == "Prepend") {
    node.allow_keys({"type", "prepend"});
    return PrependText{node.at("prepend").string()};
  }
  if (type == "Replace") return read_replace(node);
  if (type == "Sequence") node.at("type").fail_unsupported("NFC, Prepend, Replace inside a Sequence");
  node.allow_keys({"type"});
  return Nfc{};
}

}  // namespace

std::vector<Normalizer> read_normalizers(const JsonNode& node) {
  std::vector<Normalizer> normalizers;
  for (const JsonNode& step : node.sequence("normalizers")) normalizers.push_back(read_normalizer(step));
  std::vector<ReplaceText> replacements;
  for (const Normalizer& normalizer : normalizers)
    if (const auto* replace = std::get_if<ReplaceText>(&normalizer)) replacements.push_back(*replace);
  check_growth(node, replacements);
  return normalizers;
}

NormalizedText normalize(const std::vector<Normalizer>& normalizers, std::string_view text) {
  NormalizedText normalized{std::string(text), text.empty() ? 0 : scan_utf8(text).size};
  for (const Normalizer& normalizer : normalizers) normalized = std::visit(Normalize{normalized}, normalizer);
  return normalized;
}

ReplaceText read_replace(const JsonNode& node) {
  node.allow_keys({"type", "pattern", "content"});
  const JsonNode pattern = node.at("pattern");
  pattern.allow_keys({"String"});
  ReplaceText replace{pattern.at("String").string(), node.at("content").string()};
  if (replace.from.empty()) pattern.at("String").fail_expected("at least one character");
  return replace;
}

void check_growth(const JsonNode& node, std::span<const ReplaceText> steps) {
  double growth = 1;
  for (const ReplaceText& step : steps)
    if (step.to.size() > step.from.size() && !step.from.empty())
      growth *= static_cast<double>(step.to.size()) / static_cast<double>(step.from.size());
  if (growth > kMaxGrowth)
    node.fail(fmt::format("replacements may make a text {:.3g} times as long, expected at most {} times",
                          growth, kMaxGrowth));
}

std::string replace_all(const ReplaceText& replace, std::string_view text) {
  std::string out;
  for (size_t at = text.find(replace.from); at != std::string_view::npos; at = text.find(replace.from)) {
    out += text.substr(0, at);
    out += replace.to;
    text.remove_prefix(at + replace.from.size());
  }
  return out += text;
}

}  // namespace mkrt
