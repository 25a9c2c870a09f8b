"""Writes docs/spec/index.md: for each rule the modules to read and the tests that cite it. Gives each rule its anchor.

`rules.py` writes; `rules.py --check` fails when a file would change, and when no test cites a rule whose text does not
end with what is not built. Everything is read from the sources; no test is
run. The modules of a rule are found by what is written, in this order: those that its text names, those of its
section's `Code:` line, those that its tests import; among these, the one whose words are most like the rule's."""

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
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "docs" / "spec"
INDEX = SPEC / "index.md"
SOURCE = ROOT / "src" / "holdfast"
TESTS = ROOT / "tests"

MODULES_SHOWN = 3
TESTS_SHOWN = 4

RULE = re.compile(r"^- (\*\*)?([A-Z]{3}-\d{3})(?(1)\*\*)(<a id=\"[a-z0-9-]+\"></a>)?")
CITED = re.compile(r"\b([A-Z]{3})-(\d{3})(?:\s*(?:\.\.|…|–|to)\s*(?:\1-)?(\d{3}))?")
ROUTE = re.compile(r"/(?:api|experimental)/[^\s`?,;)]*")
METHOD = re.compile(r"`(?:GET|POST|PUT|PATCH|DELETE) [/…]")
NAMED = re.compile(r"`([a-z_/]+\.py)`")
NOT_BUILT = re.compile(r"\*(Not built: [^*]+)\*$")
WORD = re.compile(r"[A-Za-z_]\w*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign
Words = frozenset[str]


class Rule(NamedTuple):
    id: str
    file: str
    text: str
    code: tuple[str, ...]
    """The modules that the nearest `Code:` line above it in its section names."""
    named: tuple[str, ...]
    """The modules that this line names for the rule itself, and those in its text."""


class Test(NamedTuple):
    file: str
    """Relative to tests/."""
    name: str
    rules: frozenset[str]
    modules: Words
    """The modules whose names the test and its helpers use."""
    words: Words


def main(arguments: list[str]) -> int:
    sources = Sources()
    specification = {path: anchored(path.read_text(encoding="utf-8")) for path in sorted(SPEC.glob("*.md"))}
    specification.pop(INDEX, None)
    rules = [rule for path, text in specification.items() for rule in read_rules(path.name, text, sources)]
    tests = [test for path in sorted(TESTS.rglob("*.py")) for test in TestFile(path, sources).tests()]
    if unknown := {cited for test in tests for cited in test.rules} - {rule.id for rule in rules}:
        print(f"rules: tests cite what is not in docs/spec: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    expected = {**specification, INDEX: render(rules, tests, sources)}
    stale = [path for path, text in expected.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            print(f"rules: {path.relative_to(ROOT)} is out of date; run `make generate`", file=sys.stderr)
        if untested := uncited(rules, tests):
            told = ", ".join(untested)
            print(f"rules: no test cites {told}; write one, or end the rule with *Not built: …*", file=sys.stderr)
        return bool(stale or untested)
    for path in stale:
        path.write_text(expected[path], encoding="utf-8")
    return 0


def uncited(rules: Iterable[Rule], tests: Iterable[Test]) -> list[str]:
    """The rules without a test, apart from those that say what is not built."""
    known = {id for test in tests for id in test.rules}
    return sorted(rule.id for rule in rules if rule.id not in known and not NOT_BUILT.search(rule.text))


# -- the specification -------------------------------------------------------------------------------------------------


def anchored(text: str) -> str:
    """The text with an anchor behind the id of each rule."""

    def anchor(match: re.Match[str]) -> str:
        bold, id = match[1] or "", match[2]
        return f'- {bold}{id}{bold}<a id="{id.lower()}"></a>'

    return "\n".join(RULE.sub(anchor, line) for line in text.split("\n"))


def read_rules(file: str, text: str, sources: Sources) -> Iterator[Rule]:
    code, own = tuple[str, ...](), dict[str, tuple[str, ...]]()
    for block in blocks(text):
        if block.startswith("## "):
            code, own = (), {}
        elif block.startswith("Code: "):
            code, own = read_code(block, file, sources)
        elif found := RULE.match(block):
            named = tuple(module for path in NAMED.findall(block) if (module := sources.ending(path)))
            yield Rule(found[2], file, block, code, (*own.get(found[2], ()), *named))


def read_code(line: str, file: str, sources: Sources) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """`Code: a, b; SES-001, SES-003..005: c.` gives the modules of a section, and those of single rules."""
    found = list[tuple[str, tuple[str, ...]]]()
    for part in line.split(";"):
        modules = tuple(sources.ending(path) or "" for path in NAMED.findall(part))
        if "" in modules:
            raise SystemExit(f"rules: docs/spec/{file}: each path must be the end of one module's path: {part}")
        found.append((part, modules))
    return found[0][1], {id: modules for part, modules in found[1:] for id in cited(part)}


def blocks(text: str) -> Iterator[str]:
    """Each line joined with the indented lines that continue it."""
    block = list[str]()
    for line in text.split("\n"):
        if not line.startswith("  "):
            yield " ".join(block)
            block = []
        block.append(line.strip())
    yield " ".join(block)


# -- words -------------------------------------------------------------------------------------------------------------


def words(text: str) -> Words:
    """The words of prose and of names: `promotedSeq` and `promoted_seq` are both `promoted`, `seq` and themselves."""
    found = set[str]()
    for word in WORD.findall(text):
        parts = [part.lower() for part in PART.findall(word)]
        found.update(_stem(part) for part in parts if len(part) > 2)
        if len(parts) > 1:
            found.add("".join(parts))
    return frozenset(found)


def _stem(word: str) -> str:
    """Rough on purpose: `promotes`, `promoted` and `promoting` are alike."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 3:
            return word.removesuffix(ending).rstrip("e")
    return word.rstrip("e")


def rarity(count: int) -> float:
    """Steps rather than a curve: one more use of a word somewhere must not reorder the index."""
    return next(value for most, value in ((3, 4.0), (10, 2.0), (40, 1.0), (120, 0.3), (10**6, 0.0)) if count <= most)


# -- modules and tests -------------------------------------------------------------------------------------------------


class Sources:
    """The modules of the package, by dotted name."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        for path in sorted(SOURCE.rglob("*.py")):
            relative = path.relative_to(SOURCE)
            name = ".".join(("holdfast", *relative.with_suffix("").parts)).removesuffix(".__init__")
            self.paths[name] = str(relative)
        self._units = {name: self._read(path) for name, path in self.paths.items() if "generated" not in path}
        uses = Counter(word for units in self._units.values() for word in frozenset().union(*units))
        self._weights = {word: rarity(count) for word, count in uses.items()}

    def likeness(self, module: str, wanted: Words) -> float:
        """How much a module resembles a rule: by its path and docstring, by its best function, and by the share of the
        rule's words that occur in it at all. Common words hardly count."""
        units = self._units.get(module, [])
        if not units:
            return 0.0
        length = self._length(wanted)
        opening, *functions = [
            sum(self._weights[word] ** 2 for word in unit & wanted) / (self._length(unit) + 4) / length
            for unit in units
        ]
        total = sum(self._weights.get(word, 0.0) for word in wanted) or 1.0
        share = sum(self._weights[word] for word in frozenset().union(*units) & wanted) / total
        return 8 * (opening + max(functions, default=0.0) + share)

    @functools.cache  # noqa: B019 - one object for the whole program
    def _length(self, unit: Words) -> float:
        return sum(self._weights.get(word, 0.0) ** 2 for word in unit) ** 0.5 or 1.0

    def _read(self, path: str) -> list[Words]:
        """The words of its path and docstring, then those of each function and class."""
        text = (SOURCE / path).read_text(encoding="utf-8")
        tree, lines = ast.parse(text), text.split("\n")
        units = [words(f"{path} {ast.get_docstring(tree) or ''}")]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
                parts = [part for part in getattr(node, "body", ()) if isinstance(part, Definition)]
                for part in parts if isinstance(node, ast.ClassDef) and len(parts) > 1 else [node]:
                    units.append(words("\n".join(lines[part.lineno - 1 : part.end_lineno])))
        return units

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
        """The module with this path, or whose path ends like this, if there is exactly one."""
        if exact := [name for name, file in self.paths.items() if str(file) == path]:
            return exact[0]
        matches = [name for name, file in self.paths.items() if f"/{file}".endswith(f"/{path}")]
        return matches[0] if len(matches) == 1 else None


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

    def tests(self) -> Iterator[Test]:
        for name, node in self.definitions.items():
            if not name.startswith("test_") or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            source = self._source(name)
            if rules := frozenset(cited(source)):
                yield Test(str(self.path), name, rules, self._modules(name), words(source))

    def _modules(self, test: str) -> Words:
        """Of the names that the test uses, and then those of the helpers it uses."""
        found = {self.mirror} if self.mirror else set[str]()
        seen, level = {test}, {test}
        while level:
            names = {name for definition in level for name in self._used(definition)}
            found |= {self.imports[name] for name in names if name in self.imports}
            level = {name for name in names if name in self.definitions and not name.startswith("test_")} - seen
            seen |= level
        return frozenset(found)

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


PREFIXES = frozenset(
    {"ACP", "API", "CAT", "CLI", "CMP", "CTX", "EVT", "LLM", "MCP", "OPS", "SES", "STO", "TOL", "TUI", "WEB"}
)


# -- the index ---------------------------------------------------------------------------------------------------------


def modules_of(rule: Rule, tests: Iterable[Test], sources: Sources) -> list[str]:
    """The modules to read for a rule, the most telling first. Nothing but the rule, its section, its own tests and the
    modules decides: a test of another rule changes nothing here."""
    wanted = words(rule.text)
    scores: dict[str, float] = defaultdict(float)
    for place, module in enumerate(rule.code):
        scores[module] += 2 - 0.2 * min(place, 5)
    for handler in handlers_of(rule, sources):
        scores[handler] += 2
    for test in tests:
        for module in test.modules:
            own = 0.0 if _is_general(module) else 0.5 if rule.code and module not in rule.code else 1.0
            scores[module] += own / len(test.rules)
    likeness = {}
    for module in scores:
        likeness[module] = sources.likeness(module, wanted)
        if rule.code and module not in rule.code:
            likeness[module] *= 0.5
        if _is_general(module) and module not in rule.code[:1]:
            likeness[module] *= 0.5
    found = [module for module in scores if "__init__" not in sources.paths[module]]
    found.sort(key=lambda module: (-min(scores[module], 4.0) - likeness[module], module))
    return [sources.paths[module] for module in dict.fromkeys([*rule.named, *found])][:MODULES_SHOWN]


def handlers_of(rule: Rule, sources: Sources) -> Iterator[str]:
    """The modules that answer the endpoints of a rule."""
    for path in ROUTE.findall(rule.text):
        if handler := sources.handlers.get(_without_names(path).rstrip("/.…")):
            yield handler
    if METHOD.search(rule.text):
        yield from (module for module in rule.code if module.startswith("holdfast.server."))


def _is_general(module: str) -> bool:
    """Whether it holds records, errors or declarations, which many rules speak of and few are about."""
    return module.startswith(("holdfast.schema.", "holdfast.protocol.")) or module.endswith(".errors")


def most_telling(rule: Rule, tests: Iterable[Test], weights: dict[str, float]) -> list[Test]:
    """The tests whose words are most like the rule's, and that cite few others; at least one that uses only public
    surfaces, if there is any."""
    wanted = words(rule.text)

    def score(test: Test) -> tuple[float, str, str]:
        likeness = sum(weights.get(word, 0.0) for word in test.words & wanted)
        return -round(likeness + 8 / len(test.rules), 1), test.file, test.name

    ordered = sorted(tests, key=score)
    shown = ordered[:TESTS_SHOWN]
    outside = [test for test in ordered if test.file.startswith(("outside/", "cli/"))]
    return shown if not outside or outside[0] in shown else [*shown[:-1], outside[0]]


def render(rules: list[Rule], tests: list[Test], sources: Sources) -> str:
    citing: defaultdict[str, list[Test]] = defaultdict(list)
    for test in tests:
        for id in test.rules:
            citing[id].append(test)
    uses = Counter(word for rule in rules for word in words(rule.text))
    weights = {word: rarity(count) for word, count in uses.items()}
    lines = [
        "# Index of the rules",
        "",
        "From a rule to its text, the modules to read first and the tests that cite it, the most telling first.",
        "Written by `make generate`; paths of modules are below `src/holdfast/`, of tests below `tests/`.",
        "The modules are derived from what is written, not from what runs: a place to start, not a proof.",
    ]
    links: set[str] = set()
    for file in dict.fromkeys(rule.file for rule in rules):
        lines += ["", f"## {file}", "", "| rule | modules | tests |", "| --- | --- | --- |"]
        for rule in sorted(rule for rule in rules if rule.file == file and citing[rule.id]):
            shown = most_telling(rule, citing[rule.id], weights)
            files = list(dict.fromkeys(test.file for test in shown))
            names = [f"[{file}]{', '.join(f'::{test.name}' for test in shown if test.file == file)}" for file in files]
            if more := len(citing[rule.id]) - len(shown):
                names.append(f"{more} more")
            found = modules_of(rule, citing[rule.id], sources)
            lines.append(f"| {_link(rule)} | {', '.join(f'[{path}]' for path in found)} | {', '.join(names)} |")
            links |= {f"[{path}]: ../../src/holdfast/{path}" for path in found}
            links |= {f"[{test.file}]: ../../tests/{test.file}" for test in shown}
    lines += ["", "## Not yet tested", "", "| rule | reason |", "| --- | --- |"]
    for rule in sorted(rule for rule in rules if not citing[rule.id]):
        reason = NOT_BUILT.search(rule.text)
        lines.append(f"| {_link(rule)} | {reason[1] if reason else 'No test cites it.'} |")
    return "\n".join([*lines, "", *sorted(links), ""])


def _link(rule: Rule) -> str:
    return f"[{rule.id}]({rule.file}#{rule.id.lower()})"


def _without_names(path: str) -> str:
    return re.sub(r":\w+|\{\w+\}", "{}", path)


if __name__ == "__main__":
    gc.disable()  # The syntax trees are half of the work, and the collector would walk them again and again.
    sys.exit(main(sys.argv[1:]))
