// Tests read and bless files of .mkir text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ir/parse.h"

namespace mkc::test {

// Returns the .mkir files below `folder` of tests/, in the order of their names.
std::vector<std::filesystem::path> mkir_files(const std::string& folder);

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);

// Returns the lines of a text without their ends.
std::vector<std::string> split_lines(const std::string& text);

// Returns the text of a module of any level.
std::string text_of(const Module& module);

// Tells whether MKC_BLESS is set: tests then write what they expect instead of comparing.
bool blessing();

}  // namespace mkc::test
