#!/usr/bin/env python3
"""Writes tests/oracle/chat_template/*.vectors.json: what Jinja2 makes of templates, in the environment of transformers.

    python3 tests/oracle/make_chat_template_vectors.py        # needs: pip install transformers==5.23.0 jinja2==3.1.6

expressions.txt has one expression a line, and snippets.json is a list of templates. Both are rendered with
variables.json. templates/*.jinja have the constructs of chat templates of model families; they are rendered with the
conversations below. A vector is the rendered text, or null where Jinja2 reports an error.

Results that hold the address of an object are left out, because they differ from run to run.
"""
import copy
import json
import pathlib
import re

from transformers.utils.chat_template_utils import render_jinja_template

FOLDER = pathlib.Path(__file__).parent / "chat_template"
ADDRESS = re.compile(r" at 0x[0-9a-f]+|<(built-in|function|class) ", re.IGNORECASE)

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Looks up the wéather & \"more\" <now>",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "A city"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer"},
            "places": {"type": "array", "items": {"type": ["number", "null"]}},
            "options": {"type": "object", "properties": {"deep": {"type": "array"}}, "required": ["deep"]},
        }, "required": ["city"]},
        "return": {"type": "string"}}},
    {"type": "function", "function": {"name": "now", "description": "Tells the time", "parameters": {}}},
]


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments, number=0):
    return {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content, number=0):
    return {"role": "tool", "tool_call_id": f"call{number:05d}", "content": content}


SYSTEM = {"role": "system", "content": "You are brief."}
CONVERSATIONS = [
    [user("Hello")],
    [SYSTEM, user(" Grüße, 世界 🙂\n")],
    [SYSTEM, user("Hi"), assistant("<think>\nhm\n</think>\n\n Hello "), user("And now?")],
    [user("a"), assistant("b", reasoning_content="Because\nof c"), user("d"), assistant("e", thinking="f")],
    [user("Weather?"), assistant(None, tool_calls=[call("get_weather", {"city": "Zürich", "days": 2})]),
     result("{\"degrees\": 20.5}"), assistant("It is 20.5 degrees."), user("Thanks")],
    [SYSTEM, user("Time?"), assistant("", tool_calls=[call("now", {}), call("get_weather", {"city": "B"}, 1)]),
     result("12:00"), result("rain", 1)],
    [user([{"type": "text", "text": "Look at "}, {"type": "image"}, {"type": "text", "text": " this."}])],
    [user("a"), user("b")],
    [{"role": "developer", "content": "Be kind."}, user("a"), assistant("b")],
    [],
]
OPTIONS = [
    {"add_generation_prompt": True},
    {"tools": TOOLS, "enable_thinking": False, "add_generation_prompt": True},
    {"tools": TOOLS, "builtin_tools": ["brave_search", "code_interpreter"], "tools_in_user_message": False,
     "documents": [{"title": "One", "text": "A text\nof two lines"}, {"title": "Two", "text": "short"}]},
]


def render(template, messages, variables):
    """Returns the text, or null for an error. Templates get copies, because one that fails may leave a mark."""
    try:
        texts, _ = render_jinja_template([copy.deepcopy(messages)], chat_template=template, **copy.deepcopy(variables))
        texts[0].encode()
        return texts[0]
    except Exception:  # whatever a template does wrong
        return None


def write(name, rows):
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (FOLDER / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def rows_of(templates):
    variables = json.loads((FOLDER / "variables.json").read_text(encoding="utf-8"))
    rows = [{"template": template, "text": render(template, [], variables)} for template in templates]
    return [row for row in rows if row["text"] is None or not ADDRESS.search(row["text"])]


def main():
    expressions = (FOLDER / "expressions.txt").read_text(encoding="utf-8").splitlines()
    write("expressions.vectors.json", rows_of(["{{ " + expression + " }}" for expression in expressions]))
    write("snippets.vectors.json", rows_of(json.loads((FOLDER / "snippets.json").read_text(encoding="utf-8"))))
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    rows = []
    for path in sorted((FOLDER / "templates").glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        rows += [{"template": path.name, "conversation": c, "options": o, "text": render(template, messages, {**tokens, **options})}
                 for c, messages in enumerate(CONVERSATIONS) for o, options in enumerate(OPTIONS)]
    write("conversations.vectors.json", rows)
    (FOLDER / "conversations.json").write_text(
        json.dumps({"tokens": tokens, "conversations": CONVERSATIONS, "options": OPTIONS}, ensure_ascii=False, indent=1) + "\n",
        encoding="utf-8")


if __name__ == "__main__":
    main()
