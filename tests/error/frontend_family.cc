#include <doctest/doctest.h>

#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

namespace {

const char* const kConfig =
    R"({"architectures": ["Own"], "model_type": "own", "hidden": 16, "positions": 64, "name": "{vocab}"})";

const char* const kFamily = R"(family: own
match: {architectures: [Own], model_types: [own]}
params:
  vocab: {int: 32}
  hidden: {int: config.hidden}
  name: {string: config.name}
  eps: {float: 1e-5}
require:
  - {that: hidden > 8, key: hidden, says: "hidden is {hidden} of {name} and {gone}"}
max_context: config.positions
weights:
  embed: {name: embed, shape: [vocab, hidden]}
layers:
  repeat: 1
  prefix: b.{n}.
  caches:
    kc: {shape: [2, context, 8]}
    vc: {shape: [2, context, 8]}
  ops:
    - kv_write: {k: x, v: x, positions: positions, k_cache: kc, v_cache: vc}
    - attention:
        {q: x, k_cache: kc, v_cache: vc, positions: positions, out: a, head_dim: 8, heads: 2, kv_heads: 2, scale: 0.5, window: 0}
ops:
  - embed: {tokens: tokens, table: embed, out: x}
  - layers
  - gather_rows: {x: a, out: wanted}
  - linear: {x: wanted, weight: embed, out: logits}
  - sample: {logits: logits, out: next}
outputs: [logits, next]
)";

// Returns the error of the family's graph, with one text of the family file replaced.
std::string error_of(const std::string& from, const std::string& to, const std::string& config = kConfig) {
  const TempDir dir;
  ModelOptions options;
  options.family = dir.write("f.yaml", edited(kFamily, from, to));
  return headline(graph_of(config, options));
}

}  // namespace

TEST_CASE("the outputs that sessions know by name are a sample's") {
  CHECK(error_of("repeat: 1", "repeat: 2") == "");
  CHECK(error_of("outputs: [logits, next]", "outputs: [logits]") == "");
  CHECK(error_of("  - sample: {logits: logits, out: next}\noutputs: [logits, next]", "outputs: [logits]") ==
        "DIR/f.yaml:24:3: error: no op is a sample, expected one of \"logits\"");
  CHECK(error_of("outputs: [logits, next]", "outputs: [next]") ==
        "DIR/f.yaml:29:10: error: outputs lack \"logits\", expected the logits of a sample");
  CHECK(error_of("logits}\n  - sample: {logits: logits, out: next}",
                 "scores}\n  - scale: {x: scores, out: logits, by: 2}\n"
                 "  - sample: {logits: scores, out: next}") ==
        "DIR/f.yaml:30:11: error: no sample reads \"logits\", expected its logits");
  CHECK(error_of("  - sample: {logits: logits, out: next}",
                 "  - scale: {x: logits, out: next, by: 2}\n  - sample: {logits: logits, out: best}") ==
        "DIR/f.yaml:30:19: error: \"next\" is not what the sample of \"logits\" gives");
}

TEST_CASE("caches are two for an attention, of one shape, with room for the context") {
  CHECK(
      error_of("k_cache: kc, v_cache: vc}\n    - attention", "k_cache: kc, v_cache: kc}\n    - attention") ==
      "DIR/f.yaml:20:74: error: k_cache and v_cache are both \"kc\", expected two caches");
  CHECK(error_of("kc: {shape: [2, context, 8]}", "kc: {shape: [2, 17, 8]}") ==
        "DIR/f.yaml:17:5: error: cache l0.kc has 17 positions, expected at least the context, 64");
  CHECK(error_of("vc: {shape: [2, context, 8]}", "vc: {shape: [1, context, 16]}") ==
        "DIR/f.yaml:18:5: error: cache l0.vc is [1, 64, 16], expected [2, 64, 8] as cache l0.kc");
  CHECK(error_of("vc: {shape: [2, context, 8]}", "vc: {shape: [2, context + 1, 8]}") ==
        "DIR/f.yaml:18:5: error: cache l0.vc is [2, 65, 8], expected [2, 64, 8] as cache l0.kc");
  CHECK(error_of("kc: {shape: [2, context, 8]}\n    vc: {shape: [2, context, 8]}",
                 "kc: {shape: [2, context * 2, 8]}\n    vc: {shape: [2, context * 2, 8]}") == "");
}

TEST_CASE("parameters have names that expressions can read") {
  for (const char* name : {"context", "max_tokens", "n"})
    CHECK(error_of("  eps:", std::string("  ") + name + ":") ==
          std::string("DIR/f.yaml:7:3: error: parameter \"") + name +
              "\" is a value of mkc's own, expected another name");
  for (const char* name : {"config", "if", "true", "not", "sqrt", "in"})
    CHECK(error_of("  eps:", std::string("  ") + name + ":") ==
          std::string("DIR/f.yaml:7:3: error: parameter \"") + name +
              "\" is a word of expressions, expected another name");
  for (const char* name : {"a-b", "2x", "a.b", "ä"})
    CHECK(error_of("  eps:", std::string("  ") + name + ":") ==
          std::string("DIR/f.yaml:7:3: error: parameter \"") + name +
              "\" is no name of letters, digits and \"_\", expected another name");
  CHECK(error_of("  eps:", "  _2nd:") == "");
}

TEST_CASE("numbers alone have bounds, and are finite") {
  CHECK(error_of("{string: config.name}", "{string: config.name, min: 1}") ==
        "DIR/f.yaml:6:36: error: parameter name is a string, expected bounds of int, float or list alone");
  CHECK(error_of("{float: 1e-5}", "{bool: true, max: 1}") ==
        "DIR/f.yaml:7:26: error: parameter eps is a bool, expected bounds of int, float or list alone");
  CHECK(error_of("{float: 1e-5}", "{float: sqrt(0 - hidden)}") ==
        "DIR/f.yaml:7:16: error: square root of -16 in \"sqrt(0 - hidden)\"");
  CHECK(error_of("{float: 1e-5}", "{float: 1e308 * 10}") ==
        "DIR/f.yaml:7:8: error: eps is inf, expected a finite number");
}

TEST_CASE("a requirement's message takes a value as it is, even where it looks like a name to fill in") {
  CHECK(error_of("{that: hidden > 8", "{that: hidden > 16") ==
        "DIR/config.json:1:49: error: hidden is 16 of \"{vocab}\" and {gone}");
}

TEST_CASE("a model without positions is named by its key, not by the context asked for") {
  CHECK(error_of("repeat: 1", "repeat: 1", edited(kConfig, "64", "0")) ==
        "DIR/config.json:1:63: error: positions is 0, expected at least 1");
  CHECK(error_of("max_context: config.positions", "max_context: 1 - 2") ==
        "DIR/f.yaml:10:14: error: max_context is -1, expected at least 1");
}
