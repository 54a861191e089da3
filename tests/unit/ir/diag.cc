#include "ir/diag.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "ir/ops.h"
#include "ir/tensor.h"

namespace mkc {
namespace {

TEST_CASE("an error shows its line with a caret") {
  const Error e = error_at({"a.yaml", 2, 3}, "bad key 'x'", "one\ntwo\nthree");
  CHECK(e.message == "a.yaml:2:3: error: bad key 'x'\ntwo\n  ^");
}

TEST_CASE("an error shows no control character of a file, and its caret stays below the byte") {
  const auto shown = [](const std::string& line, uint32_t col) {
    const std::string message = error_at({"f", 1, col}, "bad", line + "\nnext").message;
    return message.substr(message.find('\n') + 1);
  };
  CHECK(shown("a\x1b[31mb", 7) == "a\\x1b[31mb\n" + std::string(9, ' ') + "^");
  CHECK(shown("\x1b[31m", 1) == "\\x1b[31m\n^");
  CHECK(shown("\x7f\xff\xc2\x9bx", 5) == "\\x7f\\xff\\xc2\\x9bx\n" + std::string(16, ' ') + "^");
  CHECK(shown(std::string("\0x", 2), 2) == "\\x00x\n    ^");
  CHECK(shown("\tü: x", 6) == "\tü: x\n\t   ^");
  CHECK(shown("ab\r", 3) == "ab\n  ^");
  CHECK(shown("ab", 5) == "ab\n    ^");
  CHECK(shown("\xe2\x82", 2) == "\\xe2\\x82\n    ^");
}

TEST_CASE("an error cuts a long line around its caret, between characters") {
  const auto shown = [](const std::string& line, uint32_t col) {
    const std::string message = error_at({"f", 1, col}, "bad", line).message;
    return message.substr(message.find('\n') + 1);
  };
  const std::string a(200, 'a'), b(199, 'b');
  CHECK(shown(a + "X" + b, 201) == a + "X" + b + "\n" + std::string(200, ' ') + "^");
  CHECK(shown("a" + a + "X" + b + "b", 202) == "…" + a + "X" + b + "…\n" + std::string(201, ' ') + "^");
  CHECK(shown("ü" + a.substr(1) + "X", 202) == "…" + a.substr(1) + "X\n" + std::string(200, ' ') + "^");
}

TEST_CASE("bugs of two threads at once end the process in order") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    static int out;
    out = ends[1];
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    // The second thread comes while this function runs, and must not end the process.
    std::atexit([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      (void)!write(out, "done", 4);
    });
    std::thread other([] { MKC_BUG("one"); });
    MKC_BUG("two");
  }
  close(ends[1]);
  std::array<char, 8> text{};
  CHECK(read(ends[0], text.data(), text.size()) == 4);
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 70);
}

TEST_CASE("an error without a known line names the file alone") {
  CHECK(error_at({"a.yaml", 0, 0}, "cannot open").message == "a.yaml: error: cannot open");
}

TEST_CASE("the nearest name is suggested only where it is near") {
  const std::vector<std::string> known = {"limits", "target"};
  CHECK(nearest_name("limitz", known) == "limits");
  CHECK(nearest_name("schedule", known).empty());
  // An inserted, missing or different letter is one slip. A name is near if its slips are at most a third of
  // its letters plus one.
  for (const char* near : {"abcdef", "abXcdef", "abdef", "abXdef", "bcdef", "abcde", "Xabcdef", "abcdefX",
                           "XbcdeX", "abc", "abcXYdef"})
    CHECK_MESSAGE(nearest_name(near, {"abcdef"}) == (std::string(near) == "abc" ? "" : "abcdef"), near);
  CHECK(nearest_name("abXYZf", {"abcdef"}) == "abcdef");
  CHECK(nearest_name("aWXYZf", {"abcdef"}).empty());
  CHECK(nearest_name("abd", {"abcdef", "abde", "abcd"}) == "abde");  // the first of the nearest names wins
}

TEST_CASE("attributes stay sorted and are replaced in place") {
  Attrs attrs;
  set_attr(attrs, "heads", int64_t{4});
  set_attr(attrs, "eps", 1e-5);
  set_attr(attrs, "heads", int64_t{8});
  REQUIRE(attrs.size() == 2);
  CHECK(attrs[0].name == "eps");
  CHECK(int_attr(attrs, "heads", 0) == 8);
  CHECK(float_attr(attrs, "scale", 2.0) == 2.0);
}

TEST_CASE("every op kind finds its own schema by name") {
  for (const std::string& name : op_names()) {
    const OpSchema* schema = find_op_schema(name);
    REQUIRE(schema);
    CHECK(op_schema(schema->kind).name == name);
  }
  CHECK(find_op_schema("conv") == nullptr);
}

TEST_CASE("dtype names read back") {
  CHECK(parse_dtype("bf16").value() == DType::bf16);
  CHECK(parse_dtype("f64").error().message ==
        "unknown dtype 'f64', expected f32, f16, bf16, e4m3, e4m3_block, int4, int4_group32, "
        "int4_zero, int4_zero_group32, int8, int8_group32, mxfp4, nvfp4, i32");
}

}  // namespace
}  // namespace mkc
