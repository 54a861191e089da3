// These tests check that no template runs for ever or takes all memory.
#include "tests/unit/text/chat_template_fixtures.h"

namespace {

std::string repeated(const std::string& text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

constexpr const char* kTooManySteps = "1: error: the template takes more than 100000000 steps";

// Returns a template that takes all steps but 2.5 million, and sets s to a long text.
std::string spent() {
  return "{% set s = 'a' * 60000000 %}{% for a in range(26) %}{% if 'b' in s %}{% endif %}{% endfor %}";
}

}  // namespace

TEST_CASE("steps are bounded") {
  CHECK(error_of("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}") ==
        "1: error: the template takes more than 100000000 steps");
  CHECK(error_of("{% set s = 'a' * 1000000 %}{% for a in range(100000) %}{% if 'b' in s %}{% endif %}{% "
                 "endfor %}") == "1: error: the template takes more than 100000000 steps");
  CHECK(error_of("{% set ns = namespace(x=[], y=[]) %}{% for a in range(100) %}{% set ns.x = [ns.x, ns.x] %}"
                 "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}") ==
        "1: error: the template takes more than 100000000 steps");
}

TEST_CASE("long texts are searched within the bound of steps") {
  const std::string texts = "{% set text = 'a' * 4000000 %}{% set wanted = 'a' * 2000000 ~ 'b' %}";
  const auto found = render(texts +
                            "{{ wanted in text }} {{ text.find(wanted) }} {{ text.count(wanted) }} "
                            "{{ text.replace(wanted, '') | length }} {{ text.strip(wanted) | length }}");
  REQUIRE_MESSAGE(found.ok(), found.error().message);
  CHECK(found.value() == "False -1 0 4000000 0");
  CHECK(error_of(texts + "{{ text.rfind(wanted) }}") ==
        "1: error: the template takes more than 100000000 steps");
}

TEST_CASE("texts that are read character by character are counted as such") {
  const std::string text = spent() + "{% set t = 'a' * 6000000 %}";
  CHECK(render(text + "{{ t == t }}").ok());
  for (const char* use : {"t | int", "t | float", "t | wordcount", "t.isalpha()", "t.islower()", "t is lower",
                          "'a'.strip(t)", "'a' | trim(t)", "[t] | sort", "t.upper()", "t | title"})
    CHECK_MESSAGE(error_of(text + "{% set x = " + use + " %}") == kTooManySteps, use);
}

TEST_CASE("texts that are copied are counted") {
  CHECK(error_of(spent() + "{% set x = '%.1s' % s %}") == kTooManySteps);
  CHECK(error_of(spent() + "{% set x = (' ' ~ s) | truncate(50000000) %}") == kTooManySteps);
  CHECK(error_of("{% set s = 'a' * 60000000 %}{{ ('{0}' * 1000).format(s) }}") ==
        "1: error: the template needs more than 512 MiB of memory");
}

TEST_CASE("memory is bounded") {
  CHECK(error_of("{% set ns = namespace(x='abcdefgh') %}{% for a in range(100) %}{% set ns.x = ns.x ~ ns.x "
                 "%}{% endfor %}") == "1: error: the template needs more than 512 MiB of memory");
  CHECK(error_of("{% set ns = namespace(x=[1]) %}{% for a in range(100) %}{% set ns.x = ns.x + ns.x %}{% "
                 "endfor %}") == "1: error: the template needs more than 512 MiB of memory");
  CHECK(error_of("{{ 'abc' * 9223372036854775807 }}") ==
        "1: error: text repeated 9223372036854775807 times has more than 64 MiB");
  CHECK(error_of("{{ [1] * 9223372036854775807 }}") ==
        "1: error: a list repeated 9223372036854775807 times is too long");
  CHECK(error_of("{{ [1] | batch(9223372036854775807, 0) | list }}") ==
        "1: error: the template needs more than 512 MiB of memory");
  CHECK(error_of("{{ 'a'.center(9223372036854775807) }}") ==
        "1: error: a width of 9223372036854775807 is too large: at most 1000000");
  CHECK(error_of("{{ '%9999999999d' % 1 }}") == "1: error: a field of the format is wider than 1000000");
  CHECK(error_of("{{ '{:9999999999}'.format(1) }}") ==
        "1: error: the format '9999999999' has no number up to 1000000 where one is expected");
  CHECK(error_of("{{ range(100001) }}") == "1: error: range: found 100001 items, expected at most 100000");
}

TEST_CASE("output is bounded") {
  CHECK(error_of("{% set s = 'a' * 10000000 %}{% for a in range(100) %}{{ s }}{% endfor %}") ==
        "1: error: the output has more than 64 MiB");
}

TEST_CASE("levels are bounded") {
  CHECK(error_of("{{ " + repeated("(", 1000) + "1" + repeated(")", 1000) + " }}") ==
        "1: error: nested more than 200 levels deep");
  CHECK(error_of("{{ " + repeated("not ", 100000) + "1 }}") == "1: error: nested more than 200 levels deep");
  CHECK(error_of("{{ " + repeated("-", 100000) + "1 }}") == "1: error: nested more than 200 levels deep");
  CHECK(error_of("{{ 1" + repeated(" + 1", 100000) + " }}") ==
        "1: error: the expression is nested more than 200 levels deep");
  CHECK(error_of("{{ 1" + repeated(" | abs", 100000) + " }}") ==
        "1: error: the expression is nested more than 200 levels deep");
  CHECK(error_of("{{ x" + repeated("[0]", 100000) + " }}") ==
        "1: error: the expression is nested more than 200 levels deep");
  CHECK(error_of(repeated("{% if 1 %}", 100000)) == "1: error: nested more than 200 levels deep");
  CHECK(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}") ==
        "1: error: the template nests calls or values more than 700 levels deep");
  CHECK(error_of("{% set ns = namespace(x=[]) %}{% for a in range(10000) %}{% set ns.x = [ns.x] %}{% endfor "
                 "%}{{ ns.x }}") == "1: error: the template nests calls or values more than 700 levels deep");
  CHECK(error_of("{% set ns = namespace(x=['a']) %}{% for a in range(10000) %}{% set ns.x = ns.x | "
                 "map('upper') %}{% endfor %}"
                 "{{ ns.x | list }}") ==
        "1: error: the template nests calls or values more than 700 levels deep");
  CHECK(error_of("{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}") ==
        "1: error: the template nests calls or values more than 700 levels deep");
  nlohmann::ordered_json deep = nlohmann::ordered_json::array();
  for (int i = 0; i < 10000; ++i) deep = nlohmann::ordered_json::array({std::move(deep)});
  CHECK(render("{{ x }}", nlohmann::ordered_json::array(), {{"x", std::move(deep)}}).error().message ==
        "x: the value is nested more than 700 levels deep");
}

TEST_CASE("keys are bounded") {
  const std::string deep =
      "{% set ns = namespace(x=(1,)) %}{% for a in range(100000) %}{% for b in range(5) %}"
      "{% set ns.x = (ns.x,) %}{% endfor %}{% endfor %}";
  const std::string wide =
      spent() +
      "{% set ns = namespace(x=(1,)) %}{% for a in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}";
  for (const char* use : {"{{ {}[ns.x] is defined }}", "{{ {ns.x: 1} | length }}",
                          "{{ [ns.x, ns.x] | unique | list | length }}", "{{ ns.x is filter }}"}) {
    CHECK(error_of(deep + use) == "1: error: the template nests calls or values more than 700 levels deep");
    CHECK(error_of(wide + use) == kTooManySteps);
  }
}

TEST_CASE("levels that real templates have are enough") {
  const auto macro = render(
      "{% macro m(n) %}{% if n %}{% for x in [1] %}{{ n }} {{ m(n - 1) }}{% endfor %}{% endif %}{% endmacro "
      "%}{{ m(50) }}");
  REQUIRE_MESSAGE(macro.ok(), macro.error().message);
  CHECK(macro.value().starts_with("50 49 48 "));
  const auto sum = render("{{ 1" + repeated(" + 1", 150) + " }}");
  REQUIRE_MESSAGE(sum.ok(), sum.error().message);
  CHECK(sum.value() == "151");
}

TEST_CASE("a source is bounded") {
  CHECK(error_of(std::string((size_t{1} << 20) + 1, 'a')) ==
        "1: error: a template of 1048577 bytes is too long: at most 1048576");
}
