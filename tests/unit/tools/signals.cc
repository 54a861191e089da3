#include "tools/signals.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/temporaries.h"
#include "tests/apart.h"
#include "tests/unit/temp_dir.h"

namespace mkc {
namespace {

TEST_CASE("a mapped file that is shortened ends the program with an error, and temporary files are removed") {
  const mkrt::test::TempDir dir;
  const std::string path = dir.write("weights", std::string(3 << 12, 'x')), said = dir.path + "/said",
                    left = dir.write("left", "x");
  const test::ApartResult result = test::run_apart(
      [&] {
        if (!std::freopen(said.c_str(), "w", stderr)) return std::string("no file");
        handle_signals("mkrun");
        const mkrt::Temporary listed(left);
        const mkrt::MappedFile file = mkrt::map_file(path).value();
        std::filesystem::resize_file(path, 1);
        return std::string(1, static_cast<char>(file.bytes[2 << 12]));
      },
      10);
  CHECK(result.text == "exit status 1");
  std::ifstream in(said);
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) ==
        "mkrun: error: a file was shortened while mkrun read it, or its disk failed\n");
  CHECK(!std::filesystem::exists(left));
}

TEST_CASE("a signal removes temporary files, and one that the caller ignores stays ignored") {
  const mkrt::test::TempDir dir;
  const std::string left = dir.write("left", "x");
  const auto raise_both = [&] {
    std::signal(SIGHUP, SIG_IGN);
    handle_signals("mkc");
    const mkrt::Temporary listed(left);
    std::raise(SIGHUP);
    std::raise(SIGTERM);
    return std::string("goes on");
  };
  CHECK(test::run_apart(raise_both, 10).text == "signal 15");
  CHECK(!std::filesystem::exists(left));
}

TEST_CASE("a signal leaves no temporary folder of threads that make them meanwhile") {
  const mkrt::test::TempDir dir;
  const auto make_until_signal = [&]() -> std::string {
    setenv("TMPDIR", dir.path.c_str(), 1);
    handle_signals("mkc");
    std::atomic<int> made = 0;
    const auto make = [&] {
      while (true) {
        const mkrt::TemporaryFolder folder;
        made += !folder.path.empty();
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back(make);
    while (made < 100) std::this_thread::yield();
    std::raise(SIGTERM);
    return "goes on";
  };
  for (int i = 0; i < 20; ++i) {
    CHECK(test::run_apart(make_until_signal, 10).text == "signal 15");
    CHECK(std::filesystem::is_empty(dir.path));
  }
}

}  // namespace
}  // namespace mkc
