// These tests compare rendered templates with those of Jinja2.
#include <ctime>
#include <set>

#include "tests/unit/text/chat_template_fixtures.h"

namespace {

using nlohmann::ordered_json;

// Templates of the fixtures that Jinja2 renders and mkc refuses, as it supports no such construct.
const std::set<std::string> kRefused = {
    "{{ 9223372036854775807 * 2 }}",
    "{{ 10 ** 400 }}",
    "{{ 9223372036854775807|round(-1) }}",
    "{{ (-9223372036854775807-1)|round(-1) }}",
    "{{ 5000000000000000001|round(-19) }}",
    "{{ 9223372036854775807|round(1, 'ceil') }}",
    "{{ \"\\N{BULLET}\" }}",
    "{{ self }}",
    "{{ true.real }}",
    "{{ users|map('attr', 'x')|list }}",
    "{{ 'ab'.encode() }}",
    "{% for x in l recursive %}{{ x }}{% endfor %}",
    "{% block a %}x{% endblock %}",
};

void check_vectors(const std::string& name) {
  const ordered_json variables = chat_template_json("variables.json");
  for (const ordered_json& row : chat_template_json(name)) {
    const std::string source = row["template"];
    CAPTURE(source);
    const mkrt::Result<std::string> text = render(source, ordered_json::array(), variables);
    if (kRefused.contains(source)) {
      REQUIRE(!text.ok());
      const std::string& message = text.error().message;
      CHECK((message.find("unsupported: ") != message.npos || message.find("64 bits") != message.npos));
    } else if (row["text"].is_null()) {
      CHECK_FALSE(text.ok());
    } else {
      REQUIRE_MESSAGE(text.ok(), text.error().message);
      CHECK(text.value() == row["text"].get<std::string>());
    }
  }
}

}  // namespace

TEST_CASE("expressions have the values that Jinja2 gives them") {
  check_vectors("expressions.vectors.json");
}

TEST_CASE("statements do what they do in Jinja2") {
  check_vectors("snippets.vectors.json");
}

TEST_CASE("conversations become the texts that Jinja2 makes of them") {
  const ordered_json fixture = chat_template_json("conversations.json");
  for (const ordered_json& row : chat_template_json("conversations.vectors.json")) {
    CAPTURE(row["template"].dump());
    CAPTURE(row["conversation"].dump());
    ordered_json variables = fixture["options"][row["options"].get<size_t>()];
    variables.update(fixture["tokens"]);
    const std::string source = chat_template_fixture("templates/" + row["template"].get<std::string>());
    const mkrt::Result<std::string> text =
        render(source, fixture["conversations"][row["conversation"].get<size_t>()], variables);
    CHECK_MESSAGE(text.ok() == !row["text"].is_null(), (text.ok() ? text.value() : text.error().message));
    if (text.ok() && !row["text"].is_null()) CHECK(text.value() == row["text"].get<std::string>());
  }
}

TEST_CASE("a template renders the same text on each of its uses") {
  const auto parsed = mkrt::ChatTemplate::parse(chat_template_fixture("templates/qwen3.jinja"), "t");
  REQUIRE(parsed.ok());
  const ordered_json messages = chat_template_json("conversations.json")["conversations"][2];
  const auto first = parsed.value().render(messages, ordered_json::object());
  const auto second = parsed.value().render(messages, ordered_json::object());
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first.value() == second.value());
}

TEST_CASE("strftime_now tells the date of today") {
  const std::time_t now = std::time(nullptr);
  const auto text = render("{{ strftime_now('%Y') }}{{ strftime_now('') }}{{ strftime_now('%%') }}");
  REQUIRE(text.ok());
  const std::time_t later = std::time(nullptr);
  const auto year = [](std::time_t time) {
    return std::to_string(1900 + std::localtime(&time)->tm_year) + "%";
  };
  CHECK((text.value() == year(now) || text.value() == year(later)));
}

TEST_CASE("strftime_now writes microseconds, and nothing for a zone, as Python does") {
  const auto text = render(
      "{{ strftime_now('%f') }} {{ strftime_now('a%zb%Zc') }} "
      "{{ strftime_now('%%z%%f') }} {{ strftime_now('%') }}");
  REQUIRE(text.ok());
  CHECK(text.value().find_first_not_of("0123456789") == 6);
  CHECK(text.value().substr(6) == " abc %z%f %");
}
