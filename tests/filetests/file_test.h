// One file test has passes, the program that they get, and the text that must come out.
#pragma once

#include <filesystem>
#include <string>

#include "ir/diag.h"

namespace mkc::test {

struct FileTest {
  std::filesystem::path path;
  std::string name;      // below tests/filetests: "fuse/experts.mkir"
  std::string input;     // head and program, without the line of kOutputMark
  std::string expected;  // all that follows this line
};

constexpr const char* kOutputMark = "// ---- output";

FileTest read_file_test(const std::filesystem::path& path);

// Returns what the passes of the file make, or the error of one of them: the text that the file must hold.
// Errors, which no file may hold: a head or a program that is not valid; a module of a pass that is not
// valid, or that the later passes make no proved schedule of.
Result<std::string> run_file_test(const FileTest& test);

// Returns where the text found first differs from the expected one, with some lines before it; "" if it does
// not.
std::string difference(const FileTest& test, const std::string& found);

// Writes the text found as the expected one.
void bless(const FileTest& test, const std::string& found);

}  // namespace mkc::test
