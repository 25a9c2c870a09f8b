"""Variables that decide what runs."""

from __future__ import annotations

import string

import pytest

from holdfast.core.permission.rules import configured
from holdfast.core.shell import approval as approvals
from holdfast.core.shell.approval import OPAQUE, Approval
from holdfast.core.shell.grammar import parse
from holdfast.schema.permission import Rule


def approval(command: str) -> Approval:
    return approvals.approval(parse(command))


OPAQUE_SETTINGS = """
export PS4='$(./x)'; set -x; true
PS4='$(./x)' true
set -x
set -ex
set -o xtrace
set +x
PATH=. ls
PATH+=:. ls
PATH=.
export PATH=.:$PATH
export "PATH=."
readonly PATH
local PATH=x
declare IFS=x
unset PATH
read PATH
read -r IFS
getopts a PATH
IFS=/ ls
ENV=./x sh y.sh
BASH_ENV=./x bash y.sh
PROMPT_COMMAND=./x ls
LD_PRELOAD=./x.so ls
LD_LIBRARY_PATH=. ls
export LD_AUDIT=./x.so
DYLD_INSERT_LIBRARIES=x ls
GIT_SSH_COMMAND=./x git fetch
GIT_PAGER=./x git log
GIT_EXTERNAL_DIFF=./x git diff
GIT_CONFIG_COUNT=1 git status
PAGER=./x git log
EDITOR=./x git commit
VISUAL=./x git commit
PYTHONPATH=. python3 x.py
PYTHONSTARTUP=x python3 x.py
NODE_OPTIONS=--require=./x node y.js
PERL5OPT=-Mx perl y.pl
PERL5LIB=. perl y.pl
RUBYOPT=-rx ruby y.rb
npm_config_script_shell=./x npm test
NPM_CONFIG_script_shell=./x npm test
RUSTC_WRAPPER=./x cargo build
CARGO_BUILD_RUSTC=./x cargo build
MAKEFLAGS=-f make
HOME=. git status
CDPATH=/ cd x
SHELLOPTS=xtrace sh x.sh
env PATH=. ls
env PS4=x ls
sudo LD_PRELOAD=x ls
time PATH=. ls
TAR_OPTIONS=--to-command=x tar xf a
RIPGREP_CONFIG_PATH=./x rg a
LESSOPEN=x less a
TMPDIR=. ls
GLOBIGNORE=x ls
env 'BASH_FUNC_ls%%=x' ls
""".strip().splitlines()


@pytest.mark.parametrize("command", OPAQUE_SETTINGS)
def test_variables_that_decide_what_runs_are_opaque(command: str) -> None:
    """TOL-528: no rule about parts of the command allows it."""
    everything = [
        Rule(action="bash", resource=f"{letter}*", effect="allow") for letter in string.printable if letter not in "*?o"
    ]
    everything += [
        Rule(action="bash", resource=f"o{letter}*", effect="allow")
        for letter in string.printable
        if letter not in "*?p"
    ]
    assert approval(command).resources[-1].startswith(OPAQUE)
    assert configured(everything, "bash", approval(command).resources) == "ask"


@pytest.mark.parametrize(
    "command", ["A=1 ls", "export NAME=x", "FOO=bar make test", "set -euo pipefail", "read -r line", "unset a"]
)
def test_other_variables_are_ordinary(command: str) -> None:
    """TOL-528."""
    assert not approval(command).resources[-1].startswith(OPAQUE)
