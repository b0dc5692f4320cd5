#!/usr/bin/env python3
"""Golden files of chat templates: what transformers writes for conversations.

The templates in tests/data/chat/templates/ use the constructs of models' own templates, and give
the formats of these, in our words. Needs transformers (5.24 was used).

usage: make_chat_templates.py     writes tests/data/chat/cases.json and snippets.json

The templates of snippets.json are in that file: a new one is added there, and the script puts the
text behind it.
"""

import datetime
import json
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

DATA = Path(__file__).resolve().parents[1] / "data/chat"
NOW = datetime.datetime(2025, 3, 9, 14, 5, 7)


class FixedClock(datetime.datetime):
    """The clock that strftime_now reads."""

    @classmethod
    def now(cls, tz=None):
        return NOW


def says(role, content, **more):
    return {"role": role, "content": content, **more}


WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "Says how it is <outside> & \"now\".",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Zürich, 東京 …"},
        "days": {"type": "integer", "enum": [1, 2], "default": None}},
        "required": ["city"]}}}
CLOCK = {"type": "function", "function": {
    "name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}}}

SYSTEM = says("system", " Be brief.\nAnd kind. ")
HELLO = says("user", "  Hello, what is 1 + 1?\n")
TWO = says("assistant", " It is 2. ")
MORE = says("user", "And the “square” of 3? {{ no }} {% tag %} 'quoted' \\n 😀")
NINE = says("assistant", "9\n\nor nine.\n")
THOUGHT = says("assistant", "<think>\nOne and one.\n</think>\n\nIt is 2.")
REASONED = says("assistant", "Nine.", reasoning_content="Three times three.\n")
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "abcdef123", "type": "function",
     "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2, "x": 1.5}}}]}
CALLS = says("assistant", "Both:", tool_calls=CALL["tool_calls"] + [
    {"id": "abcdef124", "type": "function",
     "function": {"name": "clock", "arguments": {}}}])
RESULT = says("tool", "{\"sun\": true}", tool_call_id="abcdef123")
RESULT2 = says("tool", "12:00", tool_call_id="abcdef124")
PARTS = says("user", [{"type": "image"}, {"type": "text", "text": " What is this? "}])
PART_SYSTEM = says("system", [{"type": "text", "text": "See well."}])

CONVERSATIONS = {
    "one_turn": [HELLO],
    "answered": [HELLO, TWO],
    "two_turns": [HELLO, TWO, MORE, NINE],
    "system": [SYSTEM, HELLO, TWO, MORE],
    "system_answered": [SYSTEM, HELLO, TWO, MORE, NINE],
    "system_later": [HELLO, TWO, SYSTEM, MORE, NINE],
    "thoughts": [HELLO, THOUGHT, MORE, REASONED],
    "thought_last": [SYSTEM, MORE, THOUGHT],
    "call": [HELLO, CALL, RESULT, NINE],
    "calls": [SYSTEM, HELLO, TWO, MORE, CALLS, RESULT, RESULT2, NINE, HELLO],
    "not_in_turn": [HELLO, MORE, TWO],
    "begins_with_answer": [TWO, HELLO],
    "parts": [PART_SYSTEM, PARTS, TWO],
    "odd_role": [HELLO, says("judge", "Guilty.")],
}
# Template -> special tokens, and options to try each conversation with.
PLAIN = [{}, {"add_generation_prompt": True}]
TOOLS = PLAIN + [{"tools": [WEATHER, CLOCK]}, {"tools": [WEATHER], "add_generation_prompt": True}]
S = {"bos_token": "<s>", "eos_token": "</s>"}
TEMPLATES = {
    "llama2": (S, PLAIN),
    "llama3": ({"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}, TOOLS + [
        {"date_string": "26 Jul 2024", "tools": [WEATHER], "tools_in_user_message": False},
        {"builtin_tools": ["code_interpreter", "weather"]}]),
    "mistral": (S, TOOLS),
    "qwen2": ({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}, TOOLS),
    "qwen3": ({"eos_token": "<|im_end|>"}, TOOLS + [
        {"add_generation_prompt": True, "enable_thinking": False}]),
    "gemma2": ({"bos_token": "<bos>", "eos_token": "<eos>"}, PLAIN),
    "gemma3": ({"bos_token": "<bos>", "eos_token": "<eos>"}, PLAIN),
    "phi3": ({"bos_token": "<s>", "eos_token": "<|endoftext|>"}, PLAIN),
    "chatml": ({"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}, PLAIN),
    "zephyr": (S, PLAIN),
    "deepseek": ({"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"},
                 PLAIN),
    "generation": (S, PLAIN),
}


def in_bytes(text, ranges):
    return [[len(text[:at].encode()) for at in pair] for pair in ranges]


def render(tokenizer, template, messages, options):
    """The golden part of a case."""
    try:
        text = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False,
                                             **options)
    except Exception as error:  # pylint: disable=broad-except
        return {"refused": f"{type(error).__name__}: {error}"[:200]}
    golden = {"text": text}
    if "{% generation %}" in template:
        _, ranges = chat_template_utils.render_jinja_template(
            [messages], chat_template=template, return_assistant_tokens_mask=True,
            **tokenizer.special_tokens_map, **options)
        golden["generated"] = in_bytes(text, ranges[0])
    return golden


def cases():
    for name, (tokens, variants) in TEMPLATES.items():
        # The file's last line end is the editor's; transformers drops one, too.
        template = (DATA / f"templates/{name}.jinja").read_text(encoding="utf-8")
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(WordLevel({"a": 0}, unk_token="a")), **tokens)
        for conversation, messages in CONVERSATIONS.items():
            for options in variants:
                yield {"template": name, "conversation": conversation, "options": options,
                       **render(tokenizer, template, messages, options)}


def snippet(template, variables):
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        return {"template": template, "text": compiled.render(**variables)}
    except Exception as error:  # pylint: disable=broad-except
        return {"template": template, "refused": f"{type(error).__name__}: {error}"[:200]}


def write(name, data):
    text = json.dumps(data, ensure_ascii=False, indent=1)
    (DATA / name).write_text(text + "\n", encoding="utf-8")


def main():
    chat_template_utils.datetime = FixedClock
    write("cases.json", {
        "now": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp()),
        "tokens": {name: tokens for name, (tokens, _) in TEMPLATES.items()},
        "conversations": CONVERSATIONS,
        "cases": list(cases())})
    old = json.loads((DATA / "snippets.json").read_text(encoding="utf-8"))
    variables = old["variables"]
    write("snippets.json", {
        "variables": variables,
        "snippets": [snippet(each["template"], variables) for each in old["snippets"]]})


if __name__ == "__main__":
    main()
