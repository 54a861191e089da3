#include <doctest/doctest.h>

#include "tests/unit/frontend/fixtures.h"
#include "tools/passes.h"

using namespace mkc;
using namespace mkc::test;

TEST_CASE("the model file of docs/families.md compiles through all passes") {
  const TempDir dir;
  dir.write("family.yaml", example("family"));
  dir.write("config.json", example("config"));
  Result<Compilation> opened = open_model({dir.write("model.yaml", example("model")), {}, ""}, false);
  REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message));
  const Status ran = run_passes(opened.value());
  CHECK_MESSAGE(ran.ok(), (ran.ok() ? "" : ran.error().message));
}
