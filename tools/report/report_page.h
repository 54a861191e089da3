// The page of a report is one HTML file that holds its styles, its code and its data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "tools/serve/web_files.h"

namespace mkc {

// Returns the files of tools/report/page/ and tools/page/. The build makes this function (tools/embed.cmake).
std::span<const WebFile> report_files();

// Returns JSON that may stand in an HTML element: it has no `<`. Bytes that are not UTF-8 are replaced.
std::string report_text(const nlohmann::ordered_json& data);

// Returns the page that shows report_data() and holds its text `json`, that of report_text(). The step's
// time, its floor and the verdict stand there as text, for readers without JavaScript.
std::string report_page(const nlohmann::ordered_json& data, std::string_view json);

}  // namespace mkc
