// These tests read batch files that are pipes.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/unit/engine/fake_model.h"
#include "tests/unit/temp_dir.h"
#include "tools/batch_file.h"

namespace mkc {
namespace {

using nlohmann::json;

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

TEST_CASE(
    "a line has 64 MiB at most, to the byte, and one without an end holds up nobody who does not wait") {
  constexpr size_t kLimit = size_t{64} << 20;
  const mkrt::test::TempDir dir;
  const std::string path =
      dir.write("lines", std::string(kLimit + 1, 'x') + "\n" + std::string(kLimit, 'y') + "\n");
  const int lines_of_file = open(path.c_str(), O_RDONLY), zeros = open("/dev/zero", O_RDONLY);
  LineReader lines(lines_of_file, "pipe");
  CHECK(lines.next(true).error().message ==
        "pipe:1: error: found a line of more than 67108864 bytes, expected a shorter one");
  CHECK(lines.next(true).value() == std::string(kLimit, 'y'));
  CHECK(lines.number() == 2);
  LineReader endless(zeros, "zeros");
  int errors = 0;
  for (int i = 0; i < 100; ++i) {
    const auto line = endless.next(false);
    if (!line.ok())
      ++errors;
    else
      CHECK_FALSE(line.value());
  }
  CHECK(errors == 1);
  for (const int descriptor : {lines_of_file, zeros}) close(descriptor);
}

constexpr mkrt::BatchLimits kPipeLimits = {
    .max_tokens = 8, .max_requests = 4, .context = 64, .vocab = 100, .page_size = 16, .pages = 8};

std::string good_line(int id) {
  return fmt::format("{{\"prompt_ids\": [{}], \"max_new_tokens\": 3}}\n", id);
}

TEST_CASE("a pipe of blank lines without an end holds up nobody who does not wait") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::atomic<bool> ended = false;
  std::thread writer([&] {
    const std::string blanks(4096, '\n');
    while (!ended && write(ends[1], blanks.data(), blanks.size()) > 0) continue;
    close(ends[1]);
  });
  mkrt::Result<BatchSource> source = BatchSource::open(fmt::format("/dev/fd/{}", ends[0]), {});
  REQUIRE(source.ok());
  for (int i = 0; i < 10; ++i) {
    const auto line = source.value().next(false);
    REQUIRE(line.ok());
    CHECK_FALSE(line.value());
  }
  ended = true;
  char rest[4096];
  while (read(ends[0], rest, sizeof(rest)) > 0) continue;
  writer.join();
  close(ends[0]);
}

// Answers the rest of a source, and sets `answers` by line.
mkrt::Status answers_from(BatchSource& source, std::map<int, json>& answers) {
  mkrt::FakeModel model(kPipeLimits);
  mkrt::Engine engine = mkrt::Engine::open(model).value();
  return answer_batch(source, engine, {}, [&](const std::string& object) {
    const json answer = json::parse(object);
    answers[answer["line"]] = answer;
    return mkrt::Status();
  });
}

TEST_CASE("a line of a pipe that is too long is answered as a bad line, and its neighbours as ever") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string path = fmt::format("/dev/fd/{}", ends[0]);
  const std::string longest((64 << 20) + 70000, 'x');
  std::thread writer([&] {
    for (const std::string& text : {good_line(5), good_line(6), longest + "\n", good_line(7), longest})
      for (size_t at = 0; at < text.size();) {
        const ssize_t wrote = write(ends[1], text.data() + at, text.size() - at);
        if (wrote <= 0) break;
        at += static_cast<size_t>(wrote);
      }
    close(ends[1]);
  });
  mkrt::Result<BatchSource> source = BatchSource::open(path, {});
  REQUIRE(source.ok());
  std::map<int, json> answers;
  CHECK(answers_from(source.value(), answers).ok());
  // The writer must end, too, where the source has left text behind.
  for (std::vector<char> rest(65536); read(ends[0], rest.data(), rest.size()) > 0;) continue;
  close(ends[0]);
  writer.join();
  REQUIRE(answers.size() == 5);
  for (const auto& [line, id] : {std::pair{1, 5}, {2, 6}, {4, 7}})
    CHECK(answers[line]["new_ids"] == json(mkrt::fake_generate({id}, 3, {}, kPipeLimits.vocab)));
  for (const int line : {3, 5})
    CHECK(answers[line]["error"] ==
          fmt::format("{}:{}: error: found a line of more than 67108864 bytes, expected a shorter one", path,
                      line));
}

TEST_CASE("requests that were read before reading fails have their answers") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int kept = dup(STDIN_FILENO), unreadable = open("/dev/null", O_WRONLY | O_CLOEXEC);
  REQUIRE(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
  mkrt::Result<BatchSource> source = BatchSource::open("-", {});
  REQUIRE(source.ok());
  const std::string text = "bad\n" + good_line(5) + good_line(6);
  REQUIRE(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  CHECK(source.value().next(true).value()->number == 1);  // the other lines have been read, too
  REQUIRE(dup2(unreadable, STDIN_FILENO) == STDIN_FILENO);
  std::map<int, json> answers;
  const mkrt::Status status = answers_from(source.value(), answers);
  REQUIRE(dup2(kept, STDIN_FILENO) == STDIN_FILENO);
  for (const int end : {ends[0], ends[1], kept, unreadable}) close(end);
  REQUIRE(!status.ok());
  CHECK(status.error().message == "standard input: error: cannot be read: Bad file descriptor");
  REQUIRE(answers.size() == 2);
  for (const auto& [line, id] : {std::pair{2, 5}, {3, 6}})
    CHECK(answers[line]["new_ids"] == json(mkrt::fake_generate({id}, 3, {}, kPipeLimits.vocab)));
}

}  // namespace
}  // namespace mkc
