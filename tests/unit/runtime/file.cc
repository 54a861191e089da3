#include "runtime/base/file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <thread>

#include "runtime/base/temporaries.h"
#include "tests/unit/temp_dir.h"

namespace mkrt {
namespace {

namespace fs = std::filesystem;

Status write_text(const std::string& path, std::string_view text) {
  return write_file(path, std::as_bytes(std::span(text)));
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("a file is replaced as a whole, and nothing is left beside it") {
  const test::TempDir dir;
  const std::string path = dir.write("out", "what was there before");
  REQUIRE(write_text(path, "new").ok());
  CHECK(contents(path) == "new");
  CHECK(std::distance(fs::directory_iterator(dir.path), {}) == 1);
}

TEST_CASE("paths that cannot be written are known before the bytes are") {
  const test::TempDir dir;
  const std::string file = dir.write("file", "kept");
  CHECK(check_writable(file).ok());
  CHECK(check_writable(dir.path + "/new").ok());
  CHECK(check_writable("/dev/null").ok());
  CHECK(check_writable("new").ok());
  const auto fault = [&](const std::string& path, const std::string& expected) {
    CAPTURE(path);
    for (const Status& status : {check_writable(path), write_text(path, "x")}) {
      REQUIRE(!status.ok());
      CHECK(status.error().message == path + ": error: " + expected);
    }
  };
  fault(dir.path, "cannot write: Is a directory");
  fault(dir.path + "/none/new", "cannot create: No such file or directory");
  fault(dir.path + "/none/", "cannot create: No such file or directory");
  fault(file + "/new", "cannot create: Not a directory");
  CHECK(contents(file) == "kept");
  CHECK(std::distance(fs::directory_iterator(dir.path), {}) == 1);
}

TEST_CASE("a link stays a link, and the path that it leads to is written") {
  const test::TempDir dir;
  const std::string target = dir.write("target", "before"), link = dir.path + "/link";
  fs::create_symlink("target", link);
  fs::create_symlink("link", dir.path + "/second");
  for (const std::string& text : {"new", "newer"}) {  // the link dangles at first
    if (text == "new") fs::remove(target);
    CHECK(check_writable(dir.path + "/second").ok());
    REQUIRE(write_text(dir.path + "/second", text).ok());
    CHECK(fs::is_symlink(link));
    CHECK(fs::is_symlink(dir.path + "/second"));
    CHECK(contents(target) == text);
  }
  CHECK(std::distance(fs::directory_iterator(dir.path), {}) == 3);

  fs::create_symlink("round", dir.path + "/round");
  for (const Status& status : {check_writable(dir.path + "/round"), write_text(dir.path + "/round", "x")}) {
    REQUIRE(!status.ok());
    CHECK(dir.without_path(status.error().message) ==
          "round: error: cannot create: Too many levels of symbolic links");
  }
}

TEST_CASE("an open descriptor gets the bytes at its position, by its name and by a link") {
  const test::TempDir dir;
  const std::string path = dir.write("out", "");
  const int out = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const std::string number = fmt::format("/proc/self/fd/{}", out), link = dir.path + "/link";
  fs::create_symlink(number, link);
  for (const std::string& name : {number, fmt::format("/dev/fd/{}", out), link}) {
    CHECK(check_writable(name).ok());
    REQUIRE(write_text(name, "text ").ok());
  }
  CHECK(fs::is_symlink(link));
  CHECK(contents(path) == "text text text ");
  close(out);
}

TEST_CASE("a file leaves its permissions to the one that replaces it") {
  const test::TempDir dir;
  const std::string path = dir.write("out", "before");
  for (const fs::perms permissions : {fs::perms(0600), fs::perms(0666)}) {
    fs::permissions(path, permissions);
    REQUIRE(write_text(path, "new").ok());
    CHECK(fs::status(path).permissions() == permissions);
  }
}

TEST_CASE("names of all lengths that the system takes are written, and others are refused at once") {
  const test::TempDir dir;
  for (const std::string& letter : {"x", "\u00e4"}) {
    std::string name;
    while (name.size() + letter.size() <= 255) name += letter;
    CHECK(write_text(dir.path + "/" + name, "x").ok());
    CHECK(contents(dir.path + "/" + name) == "x");
  }
  CHECK(dir.without_path(temporary_beside(dir.path + "/x" + std::string(250, 'y'))) ==
        "x" + std::string(99, 'y') + ".XXXXXX");
  CHECK(temporary_beside("short") == "short.XXXXXX");
  const Status status = check_writable(dir.path + "/" + std::string(256, 'x'));
  REQUIRE(!status.ok());
  CHECK(status.error().message.ends_with("cannot create: File name too long"));
}

TEST_CASE(
    "a file has the process's mask of permissions, and so have those that other threads make meanwhile") {
  const test::TempDir dir;
  const mode_t before = umask(027);
  std::atomic<bool> ended = false;
  std::thread other([&] {
    for (; !ended; fs::remove(dir.path + "/other")) {
      dir.write("other", "");
      CHECK((fs::status(dir.path + "/other").permissions() & fs::perms(027)) == fs::perms::none);
    }
  });
  for (int i = 0; i < 10000; ++i) REQUIRE(FileWriter(dir.path + "/out").commit().ok());
  ended = true;
  other.join();
  umask(before);
  CHECK(fs::status(dir.path + "/out").permissions() == fs::perms(0640));
}

TEST_CASE("a file that is written through a mapping has its bytes, and no more than were reserved") {
  const test::TempDir dir;
  const std::string path = dir.path + "/file";
  {
    FileWriter file(path);
    const Result<std::shared_ptr<std::byte>> mapping = file.map(10'000);
    REQUIRE_MESSAGE(mapping.ok(), mapping.error().message);
    CHECK(mapping.value().get()[9'999] == std::byte{0});
    mapping.value().get()[9'999] = std::byte{'x'};
    CHECK(file.write(std::as_bytes(std::span("head", 4)), 0).ok());
    CHECK(mapping.value().get()[0] == std::byte{'h'});
    CHECK(file.commit().ok());
  }
  const std::string text = read_text(path, 10'000).value();
  CHECK(text.size() == 10'000);
  CHECK(text.starts_with("head"));
  CHECK(text.back() == 'x');

  const FileWriter large(dir.path + "/large");
  const Result<std::shared_ptr<std::byte>> refused = large.map(uint64_t{1} << 60);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.starts_with(dir.path + "/large: error: cannot reserve: "));
}

TEST_CASE("programs that the process starts do not get a file that is being written") {
  const test::TempDir dir;
  const FileWriter file(dir.path + "/out");
  int found = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (!fs::read_symlink(entry.path(), gone).string().starts_with(dir.path + "/out.")) continue;
    ++found;
    CHECK((fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(found == 1);
}

TEST_CASE("a pipe gets the bytes and stays a pipe, under its name or by a link") {
  const test::TempDir dir;
  const std::string pipe = dir.path + "/pipe", link = dir.path + "/link";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_symlink(pipe, link);
  for (const std::string& path : {pipe, link}) {
    std::future<std::string> got = std::async(std::launch::async, [&] { return contents(pipe); });
    const Status status = write_text(path, "through the pipe");
    const bool still = fs::is_fifo(pipe) && fs::is_fifo(path);
    if (!still) std::ofstream(pipe).close();  // ends the reader's wait
    REQUIRE(still);
    CHECK(status.ok());
    CHECK(got.get() == "through the pipe");
  }
}

TEST_CASE("a write that signals interrupt goes on") {
  const test::TempDir dir;
  const std::string pipe = dir.path + "/pipe", text(1 << 20, 'x');  // the text is larger than a pipe's buffer
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  struct sigaction noted{}, before;
  noted.sa_handler = [](int) {};  // the flags lack SA_RESTART
  REQUIRE(sigaction(SIGUSR1, &noted, &before) == 0);
  const pthread_t writer = pthread_self();
  std::future<std::string> got = std::async(std::launch::async, [&] {
    std::ifstream in(pipe, std::ios::binary);
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      pthread_kill(writer, SIGUSR1);
    }
    return std::string(std::istreambuf_iterator<char>(in), {});
  });
  const Status status = write_text(pipe, text);
  CHECK(got.get() == text);
  CHECK(status.ok());
  sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("what cannot be written says why") {
  const test::TempDir dir;
  const auto refused = [&](const std::string& path) {
    return dir.without_path(write_text(path, "x").error().message);
  };
  CHECK(refused(dir.path + "/none/out") == "none/out: error: cannot create: No such file or directory");
  fs::create_directory(dir.path + "/folder");
  CHECK(refused(dir.path + "/folder") == "folder: error: cannot write: Is a directory");
}

TEST_CASE("a file that cannot be written whole leaves nothing, and what was there before") {
  const test::TempDir dir;
  const std::string path = dir.write("out", "before");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit little{1000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
  const Status status = write_text(path, std::string(2000, 'x'));
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, handler);
  REQUIRE(!status.ok());
  CHECK(dir.without_path(status.error().message) == "out: error: cannot write: File too large");
  CHECK(contents(path) == "before");
  CHECK(std::distance(fs::directory_iterator(dir.path), {}) == 1);
}

TEST_CASE(
    "folders for temporary files are removed with their files, at once where a signal ends the process") {
  std::string path;
  {
    const TemporaryFolder folder;
    path = folder.path;
    REQUIRE(write_text(path + "/a", "x").ok());
  }
  CHECK_FALSE(fs::exists(path));
  const TemporaryFolder folder;
  for (int i = 0; i < 300; ++i) REQUIRE(write_text(fmt::format("{}/file-{}", folder.path, i), "x").ok());
  remove_temporaries();
  CHECK_FALSE(fs::exists(folder.path));
}

}  // namespace
}  // namespace mkrt
