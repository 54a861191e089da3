// Every file of tests/filetests/PASS runs passes on a program and holds the text that must come out:
//
//   // passes: [split]
//   // schedule: {workers: 4, split: {"down": 2}}
//
//   mkir tasks 1 "a product in two parts"
//   …
//   // ---- output
//   mkir tasks 1 "a product in two parts"
//   …
//
// The comments that a file begins with are its head, in YAML:
//
//   passes            names of tools/passes.cc; the last one is the name of the folder
//   schedule          settings, as in a model.yaml; the default scheduler is `static`
//   machine           a machine description; default "emulator"
//   keep_activations  default false
//
// The output is the module that the last pass makes, and its remarks as comments. An error of a pass is an
// output, too. MKC_BLESS=1 writes the output into the files instead of comparing it. A new file needs no
// other change: the test finds it in the folder.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "tests/apart.h"
#include "tests/filetests/file_test.h"
#include "tests/mkir_files.h"
#include "tools/passes.h"

namespace mkc::test {
namespace {

constexpr uint32_t kSeconds = 60;  // limit of one file

// Returns the file's output, or its fault. A bug of a pass ends a process of its own.
Result<std::string> output_of(const FileTest& test) {
  const ApartResult result = run_apart(
      [&] {
        const Result<std::string> output = run_file_test(test);
        return output.ok() ? "+" + output.value() : "-" + output.error().message;
      },
      kSeconds);
  if (result.end != ApartResult::End::kReturned)
    return Error{fmt::format("{}: error: a pass ended with {}", test.name, result.text)};
  if (result.text.starts_with('-')) return Error{result.text.substr(1)};
  return result.text.substr(1);
}

TEST_CASE("every file's passes make the output that the file holds") {
  for (const std::filesystem::path& path : mkir_files("filetests")) {
    const FileTest test = read_file_test(path);
    const Result<std::string> output = output_of(test);
    if (!output.ok())
      FAIL_CHECK(output.error().message);
    else if (blessing())
      bless(test, output.value());
    else if (const std::string diff = difference(test, output.value()); !diff.empty())
      FAIL_CHECK(diff);
  }
}

TEST_CASE("every pass that takes a program has files") {
  std::set<std::string> folders;
  for (const std::filesystem::path& path : mkir_files("filetests"))
    folders.insert(path.parent_path().filename().string());
  for (const Pass& pass : passes().subspan(1)) CHECK_MESSAGE(folders.erase(pass.name) == 1, pass.name);
  CHECK_MESSAGE(folders.empty(), "a folder of no pass");
}

}  // namespace
}  // namespace mkc::test
