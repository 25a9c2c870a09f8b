"""The profile for macOS, as text: there is no such machine here."""

from __future__ import annotations

from pathlib import Path

from holdfast.core.process.sandbox.confinement import Confinement
from holdfast.core.process.sandbox.seatbelt import profile


def test_the_seatbelt_profile_denies_after_it_allows() -> None:
    """TOL-374: the last rule that matches counts, so what is protected and hidden comes after what is allowed."""
    project = Path('/Users/me/pro"ject')
    found = profile(
        Confinement(
            "workspace",
            "off",
            Path("/private/tmp/t"),
            writable=(project,),
            protected=(project / ".git" / "hooks",),
            hidden=(Path("/Users/me/.ssh"),),
            readable=(Path("/Users/me/.ssh/known_hosts"),),
        )
    )
    assert found.splitlines() == [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        '(allow file-write* (subpath "/Users/me/pro\\"ject") (subpath "/private/tmp/t"))',
        '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") '
        '(literal "/dev/urandom") (literal "/dev/tty") (literal "/dev/dtracehelper"))',
        '(deny file-write* (subpath "/Users/me/pro\\"ject/.git/hooks"))',
        '(deny file-write-unlink (literal "/Users/me/pro\\"ject") (literal "/Users/me/pro\\"ject/.git"))',
        '(deny file-read-data file-write* (subpath "/Users/me/.ssh"))',
        '(allow file-read-data (subpath "/Users/me/.ssh/known_hosts"))',
        "(deny file-write-setugid)",
        "(deny process-info* (target others))",
        "(allow signal (target same-sandbox))",
        "(deny network*)",
    ]
    assert "(deny network*)" not in profile(Confinement("read-only", "on", Path("/private/tmp/t")))


def test_a_writable_directory_in_a_hidden_one_is_visible_and_what_it_protects_stays_protected() -> None:
    """SES-411: an isolated copy lies below the data directory."""
    data = Path("/Users/me/data")
    copy = data / "copies" / "ses_a"
    found = profile(
        Confinement("workspace", "on", Path("/t"), writable=(copy,), protected=(copy / ".git",), hidden=(data,))
    )
    assert found.splitlines()[7:11] == [
        '(deny file-read-data file-write* (subpath "/Users/me/data"))',
        '(allow file-read-data file-write* (subpath "/Users/me/data/copies/ses_a"))',
        '(deny file-write* (subpath "/Users/me/data/copies/ses_a/.git"))',
        '(deny file-write-unlink (literal "/Users/me/data/copies/ses_a"))',
    ]
