// These tests read batch files that are pipes.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <thread>

#include "tools/batch_file.h"

namespace mkc {
namespace {

TEST_CASE("lines of a pipe are taken as they come") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string path = fmt::format("/dev/fd/{}", ends[0]);
  const auto write_text = [&](std::string_view text) {
    REQUIRE(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  };
  mkrt::Result<BatchSource> opened = BatchSource::open(path, {});
  REQUIRE(opened.ok());
  BatchSource& source = opened.value();
  CHECK(source.is_stream());
  CHECK(!source.next(false).value());
  write_text("\n{\"prompt_ids\": [1]}\n{\"prompt");
  CHECK(source.next(false).value()->number == 2);
  CHECK(!source.next(false).value());
  CHECK(!source.at_end());
  write_text("_ids\": [2]}");
  close(ends[1]);
  CHECK(source.next(true).value()->line.value().request.name == path + ":3");
  CHECK(!source.next(true).value());
  CHECK(source.at_end());
  CHECK(source.taken() == 2);
  close(ends[0]);
}

TEST_CASE("a pipe without a request is an error") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string path = fmt::format("/dev/fd/{}", ends[0]);
  REQUIRE(write(ends[1], "\n \n", 3) == 3);
  close(ends[1]);
  mkrt::Result<BatchSource> opened = BatchSource::open(path, {});
  REQUIRE(opened.ok());
  const auto next = opened.value().next(true);
  REQUIRE(!next.ok());
  CHECK(next.error().message == path + ": error: found no requests, expected at least one line");
  close(ends[0]);
}

TEST_CASE("lines of any length are whole, in however many pieces they come") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string text = std::string(300000, 'x') + "\n\nlast";
  std::thread writer([&] {
    for (size_t at = 0; at < text.size();) {
      const ssize_t wrote = write(ends[1], text.data() + at, std::min<size_t>(text.size() - at, 70001));
      if (wrote <= 0) break;
      at += static_cast<size_t>(wrote);
    }
    close(ends[1]);
  });
  LineReader lines(ends[0], "pipe");
  CHECK(lines.next(true).value() == std::string(300000, 'x'));
  CHECK(lines.next(true).value() == "");
  CHECK(lines.next(true).value() == "last");
  CHECK(lines.number() == 3);
  CHECK(!lines.next(true).value());
  CHECK(lines.at_end());
  writer.join();
  close(ends[0]);
}

TEST_CASE("a wait for a line ends when the other descriptor can be read") {
  int ends[2], wake[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(pipe(wake) == 0);
  LineReader lines(ends[0], "pipe");
  REQUIRE(write(wake[1], "x", 1) == 1);
  CHECK(!lines.next(true, wake[0]).value());
  CHECK(!lines.at_end());
  REQUIRE(write(ends[1], "a\nb", 3) == 3);
  // A line is read where the other descriptor is silent.
  char byte = 0;
  REQUIRE(read(wake[0], &byte, 1) == 1);
  CHECK(lines.next(true, wake[0]).value() == "a");
  for (const int end : {ends[0], ends[1], wake[0], wake[1]}) close(end);
}

}  // namespace
}  // namespace mkc
