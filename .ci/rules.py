"""Writes docs/spec/index.md: for each rule the modules to read and the tests that cite it. Gives each rule its anchor.

`rules.py` writes; `rules.py --check` fails when a file would change. Everything is read from the sources;
no test is run."""

from __future__ import annotations

import ast
import functools
import gc
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.protocol.api import API

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "docs" / "spec"
INDEX = SPEC / "index.md"
SOURCE = ROOT / "src" / "holdfast"
TESTS = ROOT / "tests"

MODULES_SHOWN = 3
TESTS_SHOWN = 2

RULE = re.compile(r"^- (\*\*)?([A-Z]{3}-\d{3})(?(1)\*\*)(<a id=\"[a-z0-9-]+\"></a>)?")
CITED = re.compile(r"\b([A-Z]{3})-(\d{3})(?:\s*(?:\.\.|…|–|to)\s*(?:\1-)?(\d{3}))?")
ROUTE = re.compile(r"/(?:api|experimental)/[^\s`?,;)]*")
WORD = re.compile(r"[A-Za-z_]\w*")
NAMED = re.compile(r"`([a-z_/]+\.py)`")
NOT_BUILT = re.compile(r"\*(Not built: [^*]+)\*$")

Scores = defaultdict[str, float]
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign


class Rule(NamedTuple):
    id: str
    file: str
    section: str
    text: str
    code: tuple[str, ...]
    """The modules that the nearest `Code:` line above it in its section names."""


class Test(NamedTuple):
    file: str
    """Relative to tests/."""
    name: str
    rules: frozenset[str]
    modules: Scores
    """How strongly the test points to each module."""


def main(arguments: list[str]) -> int:
    sources = Sources()
    specification = {path: anchored(path.read_text(encoding="utf-8")) for path in sorted(SPEC.glob("*.md"))}
    specification.pop(INDEX, None)
    rules = [rule for path, text in specification.items() for rule in read_rules(path.name, text, sources)]
    tests = read_tests(sources)
    if unknown := {cited for test in tests for cited in test.rules} - {rule.id for rule in rules}:
        print(f"rules: tests cite what is not in docs/spec: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    expected = {**specification, INDEX: render(rules, tests, rank(rules, tests, sources))}
    stale = [path for path, text in expected.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            print(f"rules: {path.relative_to(ROOT)} is out of date; run `make generate`", file=sys.stderr)
        return bool(stale)
    for path in stale:
        path.write_text(expected[path], encoding="utf-8")
    return 0


# -- the specification -------------------------------------------------------------------------------------------------


def anchored(text: str) -> str:
    """The text with an anchor behind the id of each rule."""

    def anchor(match: re.Match[str]) -> str:
        bold, id = match[1] or "", match[2]
        return f'- {bold}{id}{bold}<a id="{id.lower()}"></a>'

    return "\n".join(RULE.sub(anchor, line) for line in text.split("\n"))


def read_rules(file: str, text: str, sources: Sources) -> Iterator[Rule]:
    section, code = "", tuple[str, ...]()
    for block in blocks(text):
        if block.startswith("## "):
            section, code = block, ()
        elif block.startswith("Code: "):
            code = tuple(sources.ending(path) or "" for path in NAMED.findall(block))
            if "" in code:
                raise SystemExit(f"rules: docs/spec/{file}: each path must be the end of one module's path: {block}")
        elif found := RULE.match(block):
            yield Rule(found[2], file, section, block, code)


def blocks(text: str) -> Iterator[str]:
    """Each line joined with the indented lines that continue it."""
    block = list[str]()
    for line in text.split("\n"):
        if not line.startswith("  "):
            yield " ".join(block)
            block = []
        block.append(line.strip())
    yield " ".join(block)


# -- modules and tests -------------------------------------------------------------------------------------------------


class Sources:
    """The modules of the package, by dotted name."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        for path in sorted(SOURCE.rglob("*.py")):
            relative = path.relative_to(SOURCE)
            self.paths[".".join(("holdfast", *relative.with_suffix("").parts)).removesuffix(".__init__")] = str(
                relative
            )

    @functools.cached_property
    def handlers(self) -> dict[str, str]:
        """From the path of an endpoint, its parameters replaced by `{}`, to the module that answers."""
        found: dict[str, str] = {}
        for endpoint in API:
            group = (endpoint.handler or endpoint.group).partition(".")[0]
            candidates = (f"handlers.{group}", group, group.removesuffix("s"))
            for name in (f"holdfast.server.{candidate}" for candidate in candidates):
                if name in self.paths:
                    found.setdefault(_without_names(endpoint.path), name)
        return found

    def defining(self, module: str, name: str) -> str:
        """The module that `from module import name` leads to, also through a package that re-exports the name."""
        if f"{module}.{name}" in self.paths:
            return f"{module}.{name}"
        if self.paths.get(module, "").endswith("__init__.py"):
            text = (SOURCE / self.paths[module]).read_text(encoding="utf-8")
            exported = re.search(
                rf"from (holdfast[\w.]*) import [^#\n]*\b{name}\b|\b{name}\"?: \"(holdfast[\w.]*)\"", text
            )
            if exported and (target := exported[1] or exported[2]) in self.paths:
                return target
        return module

    def mirrored(self, file: Path) -> str | None:
        """The module that a test file is named after."""
        stem = file.stem.removeprefix("test_")
        exact = ".".join(("holdfast", *file.parts[:-1], stem))
        if exact in self.paths:
            return exact
        alike = [
            name for name in self.paths if name.startswith(f"holdfast.{file.parts[0]}.") and name.endswith(f".{stem}")
        ]
        return alike[0] if len(alike) == 1 else None

    def ending(self, path: str) -> str | None:
        """The module whose path ends like this, if there is exactly one."""
        matches = [name for name, file in self.paths.items() if f"/{file}".endswith(f"/{path}")]
        return matches[0] if len(matches) == 1 else None


def read_tests(sources: Sources) -> list[Test]:
    files = [TestFile(path, sources) for path in sorted(TESTS.rglob("*.py"))]
    users = Counter(module for file in files for module in set(file.imports.values()))
    return [test for file in files for test in file.tests(users)]


class TestFile:
    """What one test file imports and defines at its top level."""

    def __init__(self, path: Path, sources: Sources) -> None:
        text = path.read_text(encoding="utf-8")
        self.path = path.relative_to(TESTS)
        self.lines = text.split("\n")
        self.mirror = sources.mirrored(self.path)
        self.imports: dict[str, str] = {}
        self.definitions: dict[str, Definition] = {}
        for node in ast.parse(text).body:
            match node:
                case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "holdfast":
                    for alias in node.names:
                        self.imports[alias.asname or alias.name] = sources.defining(module, alias.name)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self.definitions[node.name] = node
                case ast.Assign(targets=[ast.Name(id=name)]):
                    self.definitions[name] = node
        self._names: dict[str, set[str]] = {}

    def tests(self, users: Counter[str]) -> Iterator[Test]:
        for name, node in self.definitions.items():
            if not name.startswith("test_") or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if rules := frozenset(cited(self._source(name))):
                yield Test(str(self.path), name, rules, self._modules(name, users))

    def _modules(self, test: str, users: Counter[str]) -> Scores:
        """Modules whose names the test uses, then those of the helpers it uses. What few files import counts more."""
        found: Scores = defaultdict(float)
        if self.mirror:
            found[self.mirror] += 0.6
        seen, level, weight = {test}, {test}, 1.0
        used: set[str] = set()
        while level:
            names = {name for definition in level for name in self._used(definition)}
            for module in {self.imports[name] for name in names if name in self.imports} - used:
                found[module] += weight * _specific(module, users[module])
                used.add(module)
            level = {name for name in names if name in self.definitions and not name.startswith("test_")} - seen
            seen |= level
            weight = 0.4
        return found

    def _used(self, definition: str) -> set[str]:
        """Every word of a definition. Its strings add a few; walking the tree instead would take twice the time."""
        if definition not in self._names:
            self._names[definition] = set(WORD.findall(self._source(definition)))
        return self._names[definition]

    def _source(self, definition: str) -> str:
        node = self.definitions[definition]
        decorators = [] if isinstance(node, ast.Assign) else node.decorator_list
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        while self.lines[first - 2].startswith("#"):
            first -= 1
        return "\n".join(self.lines[first - 1 : node.end_lineno])


def cited(text: str) -> Iterator[str]:
    for prefix, first, last in CITED.findall(text):
        if prefix in PREFIXES:
            yield from (f"{prefix}-{number:03d}" for number in range(int(first), int(last or first) + 1))


PREFIXES = frozenset({"API", "CAT", "CMP", "CTX", "EVT", "LLM", "SES", "TOL"})


def _specific(module: str, users: int) -> float:
    """Steps rather than a curve: one more import somewhere must not reorder the index."""
    weight = next(value for most, value in ((2, 1.0), (5, 0.6), (12, 0.3), (30, 0.1), (10**6, 0.03)) if users <= most)
    if module.startswith("holdfast.schema.") or module.endswith(".errors"):
        weight *= 0.3
    return weight * 0.1 if ".generated." in module else weight


# -- the index ---------------------------------------------------------------------------------------------------------


def rank(rules: list[Rule], tests: list[Test], sources: Sources) -> dict[str, list[str]]:
    """The modules to read for each rule, the most specific first.

    A test that cites many rules says less about each. What the rules of a section have in common, or a `Code:` line,
    decides where a rule's own tests use nothing but the runtime."""
    evidence: dict[str, Scores] = {rule.id: defaultdict(float) for rule in rules}
    for test in tests:
        for id in test.rules:
            for module, weight in test.modules.items():
                evidence[id][module] += weight / len(test.rules)
    sections: dict[tuple[str, str], Scores] = defaultdict(lambda: defaultdict(float))
    for rule in rules:
        own = evidence[rule.id]
        for module in own:
            own[module] = min(own[module], 1.5)
        for path in ROUTE.findall(rule.text):
            if handler := sources.handlers.get(_without_names(path).rstrip("/.…")):
                own[handler] += 0.6
        for path in NAMED.findall(rule.text):
            if named := sources.ending(path):
                own[named] += 5
        for module, weight in own.items():
            sections[rule.file, rule.section][module] += min(weight, 1.0)
    sizes = Counter((rule.file, rule.section) for rule in rules)
    ranked = {}
    for rule in rules:
        common = sections[rule.file, rule.section]
        scores = {module: 0.6 * weight / sizes[rule.file, rule.section] for module, weight in common.items()}
        if rule.code:
            scores = {module: 0.4 - 0.05 * place for place, module in enumerate(rule.code)}
        for module, weight in evidence[rule.id].items():
            scores[module] = scores.get(module, 0) + weight
        best = sorted((-score, module) for module, score in scores.items() if "__init__" not in sources.paths[module])
        ranked[rule.id] = [sources.paths[module] for score, module in best[:MODULES_SHOWN] if score <= 0.2 * best[0][0]]
    return ranked


def render(rules: list[Rule], tests: list[Test], modules: dict[str, list[str]]) -> str:
    citing: defaultdict[str, list[Test]] = defaultdict(list)
    for test in sorted(tests, key=lambda test: (len(test.rules), test.file, test.name)):
        for id in test.rules:
            citing[id].append(test)
    lines = [
        "# Index of the rules",
        "",
        "From a rule to its text, the modules to read first and the tests that cite it, the most specific first.",
        "Written by `make generate`; paths of modules are below `src/holdfast/`, of tests below `tests/`.",
    ]
    links: set[str] = set()
    for file in dict.fromkeys(rule.file for rule in rules):
        lines += ["", f"## {file}", "", "| rule | modules | tests |", "| --- | --- | --- |"]
        for rule in sorted(rule for rule in rules if rule.file == file and citing[rule.id]):
            shown = most_telling(citing[rule.id])
            names = [f"[{test.file}]::{test.name}" for test in shown]
            if more := len(citing[rule.id]) - len(shown):
                names.append(f"{more} more")
            found = modules[rule.id]
            lines.append(f"| {_link(rule)} | {', '.join(f'[{path}]' for path in found)} | {', '.join(names)} |")
            links |= {f"[{path}]: ../../src/holdfast/{path}" for path in found}
            links |= {f"[{test.file}]: ../../tests/{test.file}" for test in shown}
    lines += ["", "## Not yet tested", "", "| rule | reason |", "| --- | --- |"]
    for rule in sorted(rule for rule in rules if not citing[rule.id]):
        reason = NOT_BUILT.search(rule.text)
        lines.append(f"| {_link(rule)} | {reason[1] if reason else 'No test cites it.'} |")
    return "\n".join([*lines, "", *sorted(links), ""])


def most_telling(tests: list[Test]) -> list[Test]:
    """The first few; among them one that uses only public surfaces, if there is any."""
    shown = tests[:TESTS_SHOWN]
    outside = [test for test in tests if test.file.startswith(("outside/", "cli/"))]
    return shown if not outside or outside[0] in shown else [*shown[:-1], outside[0]]


def _link(rule: Rule) -> str:
    return f"[{rule.id}]({rule.file}#{rule.id.lower()})"


def _without_names(path: str) -> str:
    return re.sub(r":\w+|\{\w+\}", "{}", path)


if __name__ == "__main__":
    gc.disable()  # The syntax trees are half of the work, and the collector would walk them again and again.
    sys.exit(main(sys.argv[1:]))
