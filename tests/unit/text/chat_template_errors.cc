// These tests check the whole text of each error of a chat template.
#include "tests/unit/text/chat_template_fixtures.h"

TEST_CASE("a syntax error is located by its line") {
  CHECK(error_of("a\n{% if x %}\nb") == "2: error: the block if has no end: expected endif");
  CHECK(error_of("{% for x in y %}{% endif %}") ==
        "1: error: found the tag endif, which does not exist or does not belong here");
  CHECK(error_of("\n\n{{ 1 + }}") == "3: error: found }}, expected an expression");
  CHECK(error_of("{{ 'abc }}") == "1: error: the string has no end: expected '");
  CHECK(error_of("{{ (1 }}") == "1: error: found }, expected )");
  CHECK(error_of("{{ 1 ] }}") == "1: error: found ], which nothing opens");
  CHECK(error_of("{{ [1) }}") == "1: error: found ), expected ]");
  CHECK(error_of("{{ a ? b }}") == "1: error: found the character ?, which begins no token");
  CHECK(error_of("\n{# abc") == "2: error: the comment has no end: expected #}");
  CHECK(error_of("\n{% raw %} abc") == "2: error: the raw block has no end: expected {% endraw %}");
  CHECK(error_of("{{ a") == "1: error: the tag has no end: expected }}");
  CHECK(error_of("{% set a b %}") == "1: error: found \"b\", expected %}");
  CHECK(error_of("{% set true = 1 %}") == "1: error: found an expression to assign to, expected a name");
  CHECK(error_of("{% set [a] = 1 %}") == "1: error: found an expression to assign to, expected a name");
  CHECK(error_of("{% for x of y %}{% endfor %}") == "1: error: found \"of\", expected in");
  CHECK(error_of("{{ f(a=1, 2) }}") == "1: error: the arguments of the call are out of order");
  CHECK(error_of("{{ f(a=1, a=2) }}") == "1: error: the argument a is given twice");
  CHECK(error_of("{{ '\\x4' }}") == "1: error: the escape \\x needs 2 hexadecimal digits");
  CHECK(error_of("{{ '\\ud83d' }}") ==
        "1: error: the escape \\ud83d is a surrogate, which UTF-8 cannot hold");
  CHECK(error_of("{{ 99999999999999999999 }}") ==
        "1: error: the integer 99999999999999999999 has more than 64 bits");
  CHECK(error_of("{% macro m(a=1, b) %}{% endmacro %}") ==
        "1: error: the parameter b needs a default, as one before it has one");
  CHECK(error_of("{% macro m(a, a) %}{% endmacro %}") == "1: error: the parameter a is given twice");
  CHECK(error_of("{% break %}") == "1: error: found break outside of a loop");
  CHECK(error_of("{% for loop in x %}{% endfor %}") == "1: error: cannot assign to loop inside of a loop");
  CHECK(error_of("{% %}") == "1: error: found %}, expected the name of a tag");
  CHECK(error_of("\n\xff") == "2: error: the template is not valid UTF-8");
}

TEST_CASE("a construct that is not supported is named") {
  CHECK(error_of("\n{% include 'x' %}") == "2: error: unsupported: the tag include");
  CHECK(error_of("{% block x %}{% endblock %}") == "1: error: unsupported: the tag block");
  CHECK(error_of("{% for x in y recursive %}{% endfor %}") == "1: error: unsupported: recursive loops");
  CHECK(error_of("{{ self }}") == "1: error: unsupported: self, which refers to blocks");
  CHECK(error_of("{{ '\\N{BULLET}' }}") == "1: error: unsupported: the escape \\N");
  CHECK(error_of("{{ x[1:2, 3] }}") == "1: error: unsupported: a slice inside a tuple of indices");
  CHECK(error_of("{{ 1 | urlize }}") == "1: error: unsupported: the filter urlize");
  CHECK(error_of("{{ 1 | nothing }}") == "1: error: there is no filter nothing");
  CHECK(error_of("{{ 1 is nothing }}") == "1: error: there is no test nothing");
  CHECK(error_of("{% if true %}\n{{ 1 | nothing }}{% endif %}") == "2: error: there is no filter nothing");
  CHECK(error_of("{% do 1 %}") == "1: error: found the tag do, which does not exist or does not belong here");
  CHECK(error_of("{{ 'a'.encode() }}") == "1: error: unsupported: the method encode of a str");
  CHECK(error_of("{{ lipsum() }}") == "1: error: unsupported: the function lipsum");
  CHECK(error_of("{{ range }}") == "1: error: the function range has no text of its own");
  CHECK(error_of("{{ [1] | map('string') }}") ==
        "1: error: an iterator has no text of its own: use a filter such as list");
}

TEST_CASE("methods, attributes, formats and tests that docs/chat-templates.md lists are refused") {
  CHECK(error_of("{{ 1 is sameas 1 }}") ==
        "1: error: unsupported: sameas of two values of type int, which are equal or not");
  CHECK(error_of("{{ 'a' is sameas 'a' }}") ==
        "1: error: unsupported: sameas of two values of type str, which are equal or not");
  for (const std::string method : {"isdecimal", "isdigit", "isnumeric"})
    CHECK(error_of("{{ '٣'." + method + "() }}") ==
          "1: error: unsupported: kinds of characters outside of ASCII digits");
  CHECK(error_of("{{ ('a'|escape).replace('a', 'b') }}") ==
        "1: error: unsupported: the method replace of markup");
  CHECK(error_of("{{ ('%s'|escape) % 5 }}") == "1: error: unsupported: the operator % on markup");
  CHECK(error_of("{{ {}.fromkeys }}") == "1: error: unsupported: the method fromkeys of a dict");
  CHECK(error_of("{{ cycler(1).pos }}") == "1: error: unsupported: the method pos of a cycler");
  CHECK(error_of("{{ range(3).count(1) }}") == "1: error: unsupported: the attribute count of a range");
  CHECK(error_of("{{ (1).bit_length() }}") == "1: error: unsupported: the attribute bit_length of an int");
  CHECK(error_of("{% macro m() %}{% endmacro %}{{ m.name }}") ==
        "1: error: unsupported: the attribute name of a macro");
  CHECK(error_of("{{ '{:.3}'.format(1.5) }}") ==
        "1: error: unsupported: a float with a precision but no type");
  CHECK(error_of("{{ '{:010,}'.format(1234) }}") ==
        "1: error: unsupported: digits in groups that fill a field with zeros");
  CHECK(error_of("{{ '%05.3d' % 5 }}") ==
        "1: error: unsupported: an integer with both zeros and a precision");
  CHECK(error_of("{{ '%a' % 5 }}") == "1: error: unsupported: the conversion %a");
  CHECK(error_of("{{ '{!a}'.format(5) }}") == "1: error: unsupported: the conversion !a");
  CHECK(error_of("{{ 1234.5 | round(-2) }}") == "1: error: unsupported: a float rounded to -2 digits");
  CHECK(error_of("{{ [{}] | map(attribute='a.b', default=1) | list }}") ==
        "1: error: unsupported: map with both a default and a path");
  CHECK(error_of("{{ cycler(1) }}") ==
        "1: error: a cycler has no text of its own: use a filter such as list");
  CHECK(error_of("{{ '%2000000d' % 1 }}") == "1: error: a field of the format is wider than 1000000");
  CHECK(error_of("{{ strftime_now('%c' * 1000) }}") ==
        "1: error: strftime_now: the result has more than 4096 bytes");
}

TEST_CASE("what the template refuses comes with its message") {
  CHECK(error_of("a\n{{ raise_exception('roles must alternate: ' ~ 5) }}") ==
        "2: error: the template refuses the conversation: roles must alternate: 5");
}

TEST_CASE("an operation that fails is located by its line") {
  CHECK(error_of("\n\n{{ x.y }}") == "3: error: x is undefined");
  CHECK(error_of("{% set x = {} %}\n{{ x.y.z }}") == "2: error: the dict has no attribute y");
  CHECK(error_of("{{ [1].append(2) }}") == "1: error: the sandbox forbids append of a list");
  CHECK(error_of("{{ 'a'.__class__.x }}") == "1: error: the sandbox forbids __class__ of a str");
  CHECK(error_of("{{ 'a' + 1 }}") == "1: error: the operator + does not go with a str and an int");
  CHECK(error_of("{{ 1 < 'a' }}") == "1: error: there is no order between an int and a str");
  CHECK(error_of("{{ 1 // 0 }}") == "1: error: division by zero");
  CHECK(error_of("{{ 9223372036854775807 + 1 }}") == "1: error: the result has more than 64 bits");
  CHECK(error_of("{% for a, b in [[1]] %}{% endfor %}") == "1: error: found 1 values to unpack, expected 2");
  CHECK(error_of("{% for a in 5 %}{% endfor %}") == "1: error: an int has no elements to go through");
  CHECK(error_of("{{ 5() }}") == "1: error: an int cannot be called");
  CHECK(error_of("{{ 5 | length }}") == "1: error: an int has no length");
  CHECK(error_of("{{ x | tojson }}") == "1: error: tojson: x is undefined");
  CHECK(error_of("{{ 'a' | replace('b') }}") == "1: error: replace needs more arguments: new");
  CHECK(error_of("{{ 'a' | upper(1) }}") == "1: error: upper was given 2 arguments, expected at most 1");
  CHECK(error_of("{{ 'a' | trim(x=1) }}") == "1: error: trim has no argument x, or was given it twice");
  CHECK(error_of("{{ {[1]: 2} }}") == "1: error: found a list as a key, expected a value that never changes");
  CHECK(error_of("{{ '%d' % 'x' }}") == "1: error: %d needs a number, found a str");
  CHECK(error_of("{{ '{}'.format() }}") == "1: error: the format has more fields than values");
  CHECK(error_of("{% set x = 1 %}{% set x.y = 2 %}") ==
        "1: error: cannot assign x.y: found an int, expected a namespace");
  CHECK(error_of("{{ namespace(_a=1) }}") ==
        "1: error: a namespace has no attribute that begins with an underscore, found _a");
  CHECK(error_of("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}") ==
        "1: error: m was given 2 arguments, expected at most 1");
  CHECK(error_of("{{ f(\n1,\n2) }}") == "1: error: f is undefined");
}

TEST_CASE("variables that no template can hold are errors") {
  using nlohmann::ordered_json;
  const ordered_json none = ordered_json::array();
  CHECK(render("{{ x }}", none, {{"x", 18446744073709551615u}}).error().message ==
        "x: the integer 18446744073709551615 has more than 63 bits");
  CHECK(render("{{ x }}", none, {{"x", "\xff"}}).error().message ==
        "x: the text is not valid UTF-8: byte 0xff at offset 0");
  const ordered_json messages = {{{"content", "a"}}, {{"content", {{{"text", "b\xff"}}}}}};
  CHECK(render("{{ messages }}", messages).error().message ==
        "messages[1]: the text is not valid UTF-8: byte 0xff at offset 1");
  const auto parsed = mkrt::ChatTemplate::parse("{{ messages }}", "t");
  REQUIRE(parsed.ok());
  const auto message_of = [&](const char* messages, const char* variables) {
    const auto text = parsed.value().render(nlohmann::ordered_json::parse(messages),
                                            nlohmann::ordered_json::parse(variables));
    REQUIRE(!text.ok());
    return text.error().message;
  };
  CHECK(message_of("{}", "{}") == "messages: found object, expected an array");
  CHECK(message_of("[{}, 5]", "{}") == "messages[1]: found number, expected an object");
  CHECK(message_of("[]", "[]") == "the variables of the template: found array, expected an object");
}
