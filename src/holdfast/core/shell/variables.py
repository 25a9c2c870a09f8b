"""Variables with which a shell, the loader or a program decides what to run or where to write."""

from __future__ import annotations

from holdfast.schema.pattern import pattern

NAMES = frozenset(
    """
    _java_options awklibpath awkpath bash_env bash_xtracefd bashopts browser cc cdpath classpath curl_home cxx
    editor enable env exinit fpath gconv_path glibc_tunables globignore goflags grep_options home http_proxy
    https_proxy ifs java_tool_options jdk_java_options lessclose lessopen locpath lua_init lua_path makefiles
    makeflags manpager maven_opts mflags module_path nlspath node_options node_path openssl_conf openssl_engines
    pager path php_ini_scan_dir phprc posixly_correct prompt_command ps0 ps1 ps2 ps3 ps4 ripgrep_config_path
    rsync_rsh rubylib rubyopt rustc rustc_wrapper shell shellopts ssh_askpass sudo_askpass tar_options terminfo
    tmpdir viminit visual wgetrc xdg_config_home xdg_data_home zdotdir
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""In lower case: some programs, such as npm, ignore case."""
PREFIXES = ("bash_func_", "cargo_", "dyld_", "git_", "gradle_", "ld_", "npm_config_", "perl5", "pip_", "python", "uv_")


def decides_what_runs(assignment: str) -> bool:
    """Whether `name`, `name=value`, `name+=value` or `name[index]=value` is about such a variable."""
    found = _NAME.match(assignment)
    name = found[0].lower() if found is not None else ""
    return name in NAMES or name.startswith(PREFIXES)


_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*+")
