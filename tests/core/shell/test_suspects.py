"""How far rules that deny and ask see through options, wrappers and text that a shell carries out."""

from __future__ import annotations

import time

import pytest

from holdfast.core.permission.rules import Terms, configured, effective
from holdfast.core.shell.approval import approval
from holdfast.core.shell.grammar import parse
from holdfast.core.shell.suspects import MOST_FORMS, suspected_commands
from holdfast.schema.permission import Effect, Rule, SavedApproval

PUSH = r"""
git push
git push origin main
git -C . push
git -C sub -C .. push
git -c a=b push
git -c a=b -c c=d push --force
git --git-dir=.git push
git --git-dir .git push
git --work-tree . --git-dir .git push
git --no-pager push
git -p push
git --exec-path=x push
git --namespace n push
git --config-env=a=B push
git --literal-pathspecs push
git --bare push
/usr/bin/git push
/usr/bin/git -C . push
'git' -C . 'push'
g"i"t -C . pu\sh
A=1 git -C . push
GIT_DIR=.git git push
git -c alias.p=push p
git -c alias.p='push --force' p
git -c "alias.p=!git push" p
git -c "alias.p=!cd x && git push" p
true && git -C . push
(git -C . push)
echo $(git -C . push)
env git -C . push
nice -n 5 git -C . push
sh -c 'git -C . push'
if true; then git -C . push; fi
git -C . push &
! git -C . push
{ git -C . push; }
""".strip().splitlines()

REMOVE = r"""
rm x
nice rm x
nice -n 5 rm x
nice -n5 rm x
nice --adjustment=5 rm x
ionice -c 3 rm x
env rm x
env -i rm x
env -i A=1 rm x
env -u A rm x
env -C sub rm x
env -S 'rm x'
env --split-string='rm x'
env -i PATH=/bin rm x
timeout 5 rm x
timeout -k 1 5 rm x
timeout --signal=KILL 5 rm x
timeout -s KILL 5 rm x
xargs rm
xargs -I{} rm {}
xargs -I {} rm {}
xargs -n 1 -P 4 rm
xargs -a list rm
xargs sh -c 'rm "$@"' _
find . | xargs -0 rm
sudo rm x
sudo -u root rm x
sudo -E -u root rm x
sudo -n -- rm x
doas -u root rm x
nohup rm x
setsid -f rm x
stdbuf -oL rm x
stdbuf -o L rm x
time rm x
time -p rm x
command rm x
command -p rm x
builtin rm x
exec rm x
exec -a name rm x
busybox rm x
toybox rm x
flock lock rm x
flock -n lock rm x
flock lock -c 'rm x'
chroot / rm x
chroot --userspec=a / rm x
taskset 1 rm x
taskset -c 1 rm x
chrt -b 0 rm x
strace -f rm x
strace -o out rm x
unshare -r rm x
prlimit --nofile=5 rm x
setpriv --reuid=1 rm x
nsenter -t 1 -m rm x
systemd-run --scope rm x
systemd-run -p A=1 rm x
firejail rm x
gosu nobody rm x
runuser -u nobody -- rm x
runuser nobody -c 'rm x'
su -c 'rm x'
su root -c 'rm x'
coproc rm x
coproc NAME { rm x; }
trap 'rm x' EXIT
trap "rm x" 0 INT
trap -- 'true; rm x' EXIT
eval rm x
eval 'rm x'
eval "rm" "x"
eval 'true; rm x'
eval "eval 'rm x'"
sh -c 'rm x'
sh -c "rm $x"
bash -lc 'rm x'
bash -c 'cd y && rm x'
bash -x -c 'rm x'
bash --norc -c 'rm x'
dash -c 'sh -c "rm x"'
zsh -c 'rm x'
/bin/sh -c 'rm x'
sh -ec 'rm x'
sh <<< 'rm x'
echo 'rm x' | sh
echo rm x | bash
printf 'rm x' | sh -s
watch rm x
watch -n 1 rm x
watch 'rm x'
parallel rm ::: x
script -c 'rm x' /dev/null
script -qc 'rm x' /dev/null
tmux new-session -d 'rm x'
screen -dm rm x
alias r='rm x'
alias r=rm; r x
npx rm x
npm exec -- rm x
uv run rm x
poetry run rm x
xvfb-run -a rm x
proxychains rm x
find . -exec rm {} \;
find . -exec sh -c 'rm "$1"' _ {} \;
find . -execdir nice -n 5 rm {} +
nice -n 5 nice -n 6 rm x
sudo -u root env -i sh -c 'nice -n 5 rm x'
timeout -k 1 5 xargs -I{} rm {}
f() { nice -n 5 rm x; }; f
[[ a ]] && nice -n 5 rm x
case a in a) nice -n 5 rm x;; esac
for i in a b; do nice -n 5 rm $i; done
while true; do env -i rm x; done
echo `env -i rm x`
cat <(env -i rm x)
""".strip().splitlines()
HEREDOC = ["sh <<E\nrm x\nE", "bash -s <<'E'\ntrue\n  rm x\nE", "cat <<E | sh\nrm x\nE", "env -i \\\n rm x"]

UNSEEN = r"""
a=rm; $a x
$(echo rm) x
r${x}m x
rm${IFS}x
python3 -c 'import os; os.remove("x")'
perl -e 'unlink "x"'
awk 'BEGIN { system("rm x") }'
make clean
sh ./remove.sh
find . -delete
vim -c '!rm x'
tar xf a --to-command=rm
base64 -d <<< cm0geA== | sh
git config alias.r '!rm x' && git r
""".strip().splitlines()
"""Not promised: what a variable, a file, another program or another language decides."""


def effect_of(command: str, *rules: tuple[str, Effect], saved: tuple[str, ...] = ()) -> Effect:
    script = parse(command)
    resources, save = approval(script)
    given = [Rule(action="bash", resource=resource, effect=effect) for resource, effect in rules]
    approvals = [SavedApproval(id="psv_1", project_id="p", action="bash", resource=text) for text in saved]
    terms = Terms(suspected=suspected_commands(script))
    return effective(given, approvals, "bash", resources, whole=save[0], terms=terms)


@pytest.mark.parametrize("command", PUSH)
def test_a_denied_subcommand_of_git_is_denied_behind_options(command: str) -> None:
    """TOL-529: while everything else is allowed."""
    assert effect_of(command, ("*", "allow"), ("git push *", "deny")) == "deny"


@pytest.mark.parametrize("command", [*REMOVE, *HEREDOC])
def test_a_denied_command_is_denied_behind_wrappers(command: str) -> None:
    """TOL-529."""
    assert effect_of(command, ("*", "allow"), ("rm *", "deny")) == "deny"


@pytest.mark.parametrize("command", [*PUSH, *REMOVE, *HEREDOC])
def test_a_command_that_asks_asks_behind_wrappers(command: str) -> None:
    """TOL-529: an `ask` for something is no less final than a `deny`, and a pattern that was saved does not lift it."""
    rules: tuple[tuple[str, Effect], ...] = (("*", "allow"), ("rm *", "ask"), ("git push *", "ask"))
    assert effect_of(command, *rules) == "ask"
    assert effect_of(command, *rules, saved=("git -C *", "nice *", "sudo *")) == "ask"
    assert effect_of(command, *rules, saved=(approval(parse(command)).save[0],)) == "allow"


@pytest.mark.parametrize("command", UNSEEN)
def test_the_guide_says_what_denials_do_not_see(command: str) -> None:
    """TOL-529: with `"*": "ask"` all of them ask."""
    assert effect_of(command, ("*", "allow"), ("rm *", "deny")) == "allow"
    assert effect_of(command, ("*", "ask"), ("rm *", "deny")) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m push",
        "git log --oneline push.txt",
        "git status",
        "grep rm x",
        "sudo grep rm x",
        "xargs grep rm",
        "echo rm x",
        "cat rm",
        "nice -n 5 make rm",
        "npm run build",
        "sh ./rm.sh",
        "cat > notes <<E\nrm x\nE",
        "timeout 5 grep 'rm x' y",
    ],
)
def test_words_that_only_look_like_a_denied_command_are_not_denied(command: str) -> None:
    """TOL-529."""
    assert effect_of(command, ("*", "allow"), ("rm *", "deny"), ("git push *", "deny")) == "allow"


def test_guesses_are_no_further_condition_for_what_rules_allow() -> None:
    """TOL-529: an allow-list of what is written still allows it."""
    assert effect_of("git -C . status", ("*", "ask"), ("git -C *", "allow")) == "allow"
    assert effect_of("sudo -u ada ls", ("*", "allow")) == "allow"


@pytest.mark.parametrize(
    "unit", ["nice -n 5 ", "sh -c '", "git -C . ", "eval ", "sudo -u a env -i ", "xargs -I{} ", "a|"]
)
def test_guessing_is_bounded(unit: str) -> None:
    """TOL-361, TOL-529."""
    begun = time.process_time()
    assert len(suspected_commands(parse((unit * 8_192)[:8_192]))) <= MOST_FORMS
    assert time.process_time() - begun < 0.5
    assert configured([Rule(action="bash", resource="*", effect="allow")], "bash", ["x"]) == "allow"
