"""Commands that are proved to change nothing."""

from __future__ import annotations

import pytest

from holdfast.core.shell.grammar import parse
from holdfast.core.shell.read_only import read_files

PROVED = """
ls
ls -la src
pwd; whoami && date +%F
cat README.md | grep -n 'a*b' | sort -k2,2 | uniq -c | head -20
wc -l < notes.txt
echo "a b" 'c' 2>/dev/null
find . -name '*.py' -type f
rg -n --hidden 'x' src
git status --short
git --no-pager log --oneline -20
git diff --stat HEAD~1
git log -p --follow -- a.py
git show HEAD:a.py
git blame a.py
git grep -n word
git branch -a
git tag --list
git remote -v
git rev-parse --abbrev-ref HEAD
git config --list
git reflog
cd sub && cat a.txt
if test -f a; then cat a; else echo none; fi
for f in a b; do echo x; done
python3 --version
stat a && file a && du -sh . && df -h
jq .name package.json
diff -u a b
sort a b
date -u +%s
tree -L 2
fd -e py
[ -d src ]
grep -rn word .
""".strip().splitlines()

UNPROVED = """
ls > out
cat a >> b
X=1 ls
PATH=. ls
./ls
/tmp/ls
bin/cat a
ls $HOME
cat "$x"
cat *.py
cat .e*
cat ~/.ssh/id_rsa
cat ~
echo $(touch a)
ls; touch a
ls | tee a
ls | xargs rm
find . -delete
find . -exec rm {} \\;
find . -execdir x \\;
find . -ok rm {} \\;
find . -fprintf out x
find . -fls out
sort -o out a
sort -ro out a
sort -uoout a
sort --output=out a
sort --outp out a
sort --o out a
sort --compress-program=./x a
sort -T dir a
rg --pre ./x word
rg --pre=./x word
rg -z word
rg --search-zip word
rg --hostname-bin=./x word
fd -x rm
fd -Hx rm
fd --exec rm
fd --exec-b rm
tree -o out
tree -R -L 1
uniq a out
uniq -c a out
date -s tomorrow
date --set=tomorrow
date 010203042026
hostname evil
hostname -Fname
hostname --file=name
diff --paginate a b
diff -l a b
file -C -m magic
git log --output=out
git log --outp out
git diff --output out
git diff --ext-diff
git show --textconv a
git grep -Oless x
git grep --open-files-in-pager=./x x
git grep --open x
git branch new
git branch -D old
git branch -m a b
git tag v1
git tag -d v1
git remote add x y
git config a b
git config --global --list x
git reflog expire --all
git reflog delete x
git cat-file --filters HEAD:a
git -c core.pager=x log
git -C .. status
git --exec-path=. status
git --git-dir=x status
git -p log
git
git stash
git checkout .
git push
git fetch
git submodule status
git bisect log
git worktree list
git status --output=x
python3 -c 'print(1)'
python3 x.py
node
npm install
awk 1 a
sed -n 1p a
less a
vim a
env
env ls
xargs ls
time ls
nice ls
sudo ls
command ls
tee a
touch a
curl x
cd
cd -
cd a && cd b
cd "$x" && ls
eval ls
exec ls
trap ls EXIT
ls() { rm a; }; ls
printf -v x y
cat < "$x"
: > a
echo `pwd`
echo $(pwd)
""".strip().splitlines()


@pytest.mark.parametrize("command", PROVED)
def test_commands_that_only_read_are_proved(command: str) -> None:
    """TOL-523."""
    assert read_files(parse(command)) is not None


@pytest.mark.parametrize("command", [*UNPROVED, "", "# nothing", "x" * 9_000])
def test_commands_that_may_change_something_are_not(command: str) -> None:
    """TOL-523: also options in clusters, abbreviated, and attached."""
    assert read_files(parse(command)) is None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cat .env", ".env"),
        ("cd sub && cat .env", "sub/.env"),
        ("grep -f.env x", ".env"),
        ("grep --file=/etc/shadow x", "/etc/shadow"),
        ("grep -f/etc/shadow x", "/etc/shadow"),
        ("git show HEAD:.env", ".env"),
        ("sort < .env", ".env"),
        ("cat a | tail -n 1 b; head c", "c"),
    ],
)
def test_the_files_that_a_command_names_are_returned(command: str, name: str) -> None:
    """TOL-523: rules about reading are asked about them."""
    assert name in (read_files(parse(command)) or ())
