"""Just enough C++ reading for the linter: code without comments, functions, classes."""

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


def without_angles(text):
    """Template arguments and parameters become spaces."""
    return _collapse(_ANGLES, text)


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


_CLASS = re.compile(r"\b(class|struct)\s+(?:SHOAL_\w+(?:\([^()]*\))?\s+)?([\w:]+)"
                    r"(?:\s+final)?\s*(?::[^;{}()]*)?\{")
_BASE = re.compile(r"\b(?:public|protected|private)\s+(?:\w+::)*(\w+)")
_METHOD = re.compile(r"(~?\w+)\s*\(")
_DEFINED = re.compile(r"\b(\w+)::(~?\w+)\s*\(")


def end_of(code, start, opening, closing):
    """The offset behind what closes the bracket at `start`."""
    depth = 0
    for i in range(start, len(code)):
        depth += (code[i] == opening) - (code[i] == closing)
        if depth == 0:
            return i + 1
    return len(code)


class Class:
    """A class or struct of `code`, which is without comments and directives."""

    def __init__(self, code, found):
        self.name = found[2].rpartition("::")[2]
        self.offset = found.start()
        self.bases = _BASE.findall(found[0])
        self.members = list(_members(code, found.end(), found[1] == "struct"))


class Member:
    def __init__(self, offset, head, body, public):
        self.offset = offset + len(head) - len(head.lstrip())
        self.head = head.strip()  # its text up to '{' or ';'
        self.body = body          # of a method that is defined here; else empty
        self.public = public
        self.method = _method_name(self.head)  # None: it is none


def classes(code):
    """Each Class that is defined in `code`, inner ones, too."""
    return [Class(code, found) for found in _CLASS.finditer(code)
            if not code[:found.start()].rstrip().endswith("enum")]


def _members(code, first, public):
    last = end_of(code, first - 1, "{", "}") - 1
    start = i = first
    while i < last:
        head = code[start:i]
        if code[i] == ":" and _access(code, start, i):
            public = head.strip() == "public"
            start = i + 1
        elif code[i] == ";":
            yield Member(start, head, "", public)
            start = i + 1
        elif code[i] == "{":
            end = end_of(code, i, "{", "}")
            # After a member initialiser a constructor goes on, and a value up to its ';'.
            if _opens_function(head) and code[end:last].lstrip()[:1] not in (*",{;)", ""):
                yield Member(start, head, code[i:end], public)
                start = end
            i = end - 1
        i += 1


def _method_name(head):
    head = _collapse(_ANGLES, head)
    found = _METHOD.search(head)
    return found and not re.search(r"=|\boperator\b", head[:found.start()]) and found[1] or None


def definitions(code):
    """(class, method, body) of each method that is defined outside of its class."""
    for found in _DEFINED.finditer(code):
        end = end_of(code, found.end() - 1, "(", ")")
        brace = re.compile(r"[\w\s]*(?:\([^()]*\)\s*)?\{").match(code, end)
        if brace:
            yield found[1], found[2], code[end:end_of(code, brace.end() - 1, "{", "}")]
