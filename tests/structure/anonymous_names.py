"""Names that the anonymous namespaces of two sources of one list in CMake both define: such sources are compiled in
groups (cmake/Sources.cmake), and which ones share a group changes with the list.
"""

import re

from standard_headers import NO_CODE

CALL = re.compile(r"\b(engram_sources|engram_add_tests)\(((?:[^()]|\([^()]*\))*)\)")
SET = re.compile(r"\bset\((\w+)\s+([^()]*)\)")
# The words whose sources are compiled in groups.
GROUPED = {"engram_sources": ("LIBTORCH", "PLAIN"), "engram_add_tests": ("LIBTORCH",)}

NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*)$")
TEMPLATE = re.compile(r"template ?<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*> ?")
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)")
PARAMETERS = re.compile(r"([\w~]+) ?\((.*)\)[^()]*$")
VARIABLE = re.compile(r"(\w+)(?:\[[^\]]*\])* =")


def groups(cmake, folder):
    """The sources that may be compiled together, one list of paths a group."""
    lists = {f"${{{name}}}": words.split() for name, words in SET.findall(cmake)}
    for function, arguments in CALL.findall(cmake):
        by_word, group = {}, []
        for word in arguments.split()[1:]:
            if word.isupper():
                group = by_word.setdefault(word, [])
            else:
                group.extend(lists.get(word, [word]))
        for word in GROUPED[function]:
            paths = [folder / name for name in by_word.get(word, []) if name.endswith(".cpp")]
            yield [path for path in paths if path.is_file()]


def statements(code):
    """(What stands before its braces or its semicolon, what stands in the braces) of each statement at the top."""
    begin = depth = parentheses = body = 0
    for at, character in enumerate(code):
        if character in "()":
            parentheses += 1 if character == "(" else -1
        elif character == "{" and parentheses == 0:
            depth += 1
            if depth == 1:
                body = at + 1
        elif character == "}" and parentheses == 0:
            depth -= 1
            if depth == 0:
                head = " ".join(code[begin:body - 1].split())
                yield head.lstrip("; "), code[body:at]
                begin = at + 1
        elif character == ";" and depth == 0 and parentheses == 0:
            head = " ".join(code[begin:at].split())
            if head:
                yield head, None
            begin = at + 1


def types_of(parameters):
    """Of a parameter list, without names and defaults."""
    depth, parts = 0, [""]
    for character in parameters:
        depth += (character in "<({[") - (character in ">)}]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return ", ".join(re.sub(r"(?<=[\w>&*\]]) ?\b\w+$", "", part.split("=")[0].strip()) for part in parts)


def defined(head, body):
    """The names that a statement defines, functions with the types of their parameters."""
    head = TEMPLATE.sub("", head)
    if match := TYPE.match(head):
        return [match.group(1)] if body is not None else []
    if head.startswith(("namespace", "using", "static_assert", "typedef", "friend")):
        return []
    outside = re.sub(r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", "()", head)
    if "=" not in outside and (match := PARAMETERS.search(head)):
        return [f"{match.group(1)}({types_of(match.group(2))})"] if body is not None else []
    return VARIABLE.findall(outside + ("" if "=" in outside or " " not in outside else " ="))


def anonymous_names(code, around=(), anonymous=False):
    """(Namespace around, name) of all that anonymous namespaces define."""
    for head, body in statements(code):
        if (match := NAMESPACE.match(head)) and body is not None:
            inside = (*around, match.group(1)) if match.group(1) else around
            yield from anonymous_names(body, inside, anonymous or not match.group(1))
        elif anonymous:
            yield from (("::".join(around), name) for name in defined(head, body))


def names_in(path):
    code = NO_CODE.sub(lambda match: "" if match.group().startswith("/") else '""', path.read_text(encoding="utf-8"))
    return set(anonymous_names(re.sub(r"^\s*#.*(?:\\\n.*)*$", "", code, flags=re.MULTILINE)))


def problems(root):
    for path in sorted(root.rglob("CMakeLists.txt")):
        if "build" in path.relative_to(root).parts:
            continue
        for group in groups(path.read_text(encoding="utf-8"), path.parent):
            first = {}
            for source in group:
                for name in sorted(names_in(source)):
                    if name in first:
                        yield (f"{source.relative_to(root)}: the anonymous namespace of "
                               f"{first[name].relative_to(root)} defines {name[1]}, too")
                    first.setdefault(name, source)
