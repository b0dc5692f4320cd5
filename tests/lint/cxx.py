"""Just enough C++ reading for the linter: code without comments, and where functions lie."""

import re

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.S)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M | re.S)
_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum)\b")
_PARENTHESES = re.compile(r"\([^()]*\)")
_ANGLES = re.compile(r"<[^<>]*>")


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def without_comments(text):
    """Comments and the insides of literals become spaces; line numbers stay."""
    return _TOKEN.sub(_blank, text)


def without_directives(code):
    """Preprocessor lines, continued ones too, become spaces."""
    return _DIRECTIVE.sub(_blank, code)


def _collapse(pattern, text):
    while pattern.search(text):
        text = pattern.sub(" ", text)
    return text


def _opens_function(head):
    """Whether a '{' after `head` (the text since the last border) begins a function body."""
    if "(" not in head or re.search(r"=\s*$", head):
        return False
    # What is left of `template <class T> requires(...) class SHOAL_X("y") Name {` says class.
    return not _SCOPE.search(_collapse(_ANGLES, _collapse(_PARENTHESES, head)))


def functions(text):
    """(first line, last line) of each function with a body, outermost only; lines from 1."""
    code = without_directives(without_comments(text))
    found, depth, start, head_at = [], 0, None, 0
    inside = 0  # depth at which the current function's body lies
    for i, char in enumerate(code):
        if char == "{":
            if start is None and _opens_function(code[head_at:i]):
                head = code[head_at:i]
                start = head_at + len(head) - len(head.lstrip())
                inside = depth
            depth += 1
            if start is None:
                head_at = i + 1
        elif char == "}":
            depth -= 1
            if start is not None and depth == inside:
                rest = code[i + 1:].lstrip()
                # After a member initialiser `a_{1}` the function goes on.
                if rest[:1] not in (",", "{"):
                    found.append((code.count("\n", 0, start) + 1, code.count("\n", 0, i) + 1))
                    start = None
            if start is None:
                head_at = i + 1
        elif start is None and (char == ";" or (char == ":" and _access(code, head_at, i))):
            head_at = i + 1
    return found


def _access(code, start, end):
    return code[start:end].strip() in ("public", "private", "protected")


def includes(text):
    """(line, header, quoted?) of each include directive."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            found.append((number, match.group(2), match.group(1) == '"'))
    return found
