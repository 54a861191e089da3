#include <doctest/doctest.h>

#include <fstream>

#include "ir/bodies.h"
#include "ir/print.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "scheduler/proof/prove.h"

namespace mkc {
namespace {

std::string document() {
  std::ifstream in(MKC_SOURCE_DIR "/docs/ir.md");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("the examples of docs/ir.md are valid, proved, and stand there as they print") {
  const std::string text = document(), open = "```mkir\n", close = "```\n";
  int examples = 0;
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at + 1)) {
    const size_t begin = at + open.size();
    const std::string example = text.substr(begin, text.find(close, begin) - begin);
    const Result<Module> module = parse_mkir(example, "docs/ir.md");
    REQUIRE_MESSAGE(module.ok(), module.error().message);
    for (const Error& error : verify(module.value())) FAIL_CHECK(error.message);
    if (const auto* schedule = std::get_if<Schedule>(&module.value())) {
      const Result<ProofReport> proof = prove(*schedule);
      CHECK_MESSAGE(proof.ok(), (proof.ok() ? "" : proof.error().message));
    }
    CHECK(std::visit([](const auto& level) { return print(level); }, module.value()) == example);
    ++examples;
  }
  CHECK(examples == 3);
}

// Returns "norm? [K]" for the role "norm?" with dims "K".
std::string entry(const RoleSchema& role) {
  std::string text = std::string(role.name) + " [";
  for (const char* d = role.operand.dims; *d; ++d)
    text += (d == role.operand.dims ? "" : ", ") + std::string(1, *d);
  return text + "]";
}

TEST_CASE("the table of bodies in docs/ir.md has every role and attribute") {
  const std::string text = document();
  for (BodyKind kind : kBodyKinds) {
    const size_t begin = text.find(std::string("\n| ") + body_name(kind) + " |");
    REQUIRE(begin != std::string::npos);
    const std::string row = text.substr(begin + 1, text.find('\n', begin + 1) - begin);
    const BodySchema& schema = body_schema(kind);
    for (const RoleSchema& role : schema.reads)
      CHECK_MESSAGE(row.find(entry(role)) != std::string::npos, entry(role));
    for (const RoleSchema& role : schema.writes) CHECK(row.find(role.name) != std::string::npos);
    for (const auto* attrs : {&schema.int_attrs, &schema.float_attrs})
      for (const char* attr : *attrs) CHECK(row.find(attr) != std::string::npos);
  }
}

}  // namespace
}  // namespace mkc
