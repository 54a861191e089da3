#include "tools/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ir/diag.h"
#include "runtime/base/counted.h"
#include "tools/output.h"

namespace mkc {
namespace {

// The scripts in the order of what they need. The page holds them as one module.
constexpr std::string_view kScripts[] = {
    "dom.js",    "trace.js",     "timeline.js", "timeline_input.js", "timeline_panel.js",
    "format.js", "step_data.js", "head.js",     "layout.js",         "graph.js",
    "tables.js", "step.js",      "main.js"};

std::string_view bytes_of(std::string_view name) {
  const std::span<const WebFile> files = report_files();
  const auto found = std::ranges::find(files, name, &WebFile::name);
  if (found == files.end()) MKC_BUG("the report has no file " + std::string(name));
  return found->bytes;
}

// Returns a module's text without its imports and without the word export. An import is one line.
std::string plain_script(std::string_view module) {
  std::string out;
  while (!module.empty()) {
    std::string_view line = module.substr(0, module.find('\n'));
    module.remove_prefix(std::min(line.size() + 1, module.size()));
    if (line.starts_with("import ")) continue;
    if (line.starts_with("export ")) line.remove_prefix(std::string_view("export ").size());
    out.append(line).append("\n");
  }
  return out;
}

std::string script() {
  std::string out;
  for (const std::string_view name : kScripts) out += plain_script(bytes_of(name));
  return out;
}

std::string styles() {
  std::string out;
  for (const std::string_view name : {"base.css", "timeline.css", "report.css"}) out += bytes_of(name);
  return out;
}

// Returns text for an HTML element. It holds none of the page's marks, whatever the names of files.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("<>&*").find(c) != std::string_view::npos)
      out += fmt::format("&#{};", static_cast<int>(c));
    else
      out += c;
  }
  return out;
}

// Returns the last folder of the model's path. JSON text replaces bytes that are not UTF-8.
std::string folder_name(const nlohmann::ordered_json& data) {
  const auto text = nlohmann::json::parse(json_text(data["step"]["model"])).get<std::string>();
  const std::filesystem::path path(text);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string about(const nlohmann::ordered_json& data) {
  const auto& step = data["step"];
  std::string text = fmt::format("{} · {} · {}", step["machine"].get<std::string>(),
                                 mkrt::counted(step["workers"].get<uint32_t>(), "worker"),
                                 data["step_text"].get<std::string>());
  return data["gpu"].get<bool>() && data["trace"].is_null() ? text + " · simulated: not run on a GPU" : text;
}

std::string figures(const nlohmann::ordered_json& data) {
  const auto& step = data["step"];
  return fmt::format(
      "<div><dt>predicted step</dt><dd>{:.1f} µs<small class=\"muted\">{:.1f} to {:.1f} µs</small></dd></div>"
      "<div><dt>floor</dt><dd>{:.1f} µs<small class=\"muted\">bytes at the ceiling</small></dd></div>",
      step["us"].get<double>(), step["us_range"][0].get<double>(), step["us_range"][1].get<double>(),
      step["floor_us"].get<double>());
}

// Puts a text in the place of a mark, which stands once in the page.
void fill_in(std::string& page, std::string_view mark, std::string_view text) {
  const size_t at = page.find(mark);
  if (at == page.npos) MKC_BUG("the report's page lacks " + std::string(mark));
  page.replace(at, mark.size(), text);
}

}  // namespace

std::string report_text(const nlohmann::ordered_json& data) {
  const std::string json = json_text(data);
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string report_page(const nlohmann::ordered_json& data, std::string_view json) {
  std::string page(bytes_of("index.html"));
  fill_in(page, "/* styles */", styles());
  fill_in(page, "/* script */", script());
  fill_in(page, "<!-- model -->", escaped(folder_name(data)));
  fill_in(page, "<!-- about -->", escaped(about(data)));
  fill_in(page, "<!-- figures -->", figures(data));
  fill_in(page, "<!-- proof -->", "<p>" + escaped(data["proof"]["text"].get<std::string>()) + "</p>");
  fill_in(page, "/* data */", json);
  return page;
}

}  // namespace mkc
