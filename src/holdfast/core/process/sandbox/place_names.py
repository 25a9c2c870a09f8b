"""Names of files that a sandbox hides or protects: secrets, and files that other programs execute. Data only.

A name that ends with `/` is a directory, any other a file. Secrets with other names must be protected by file
permissions."""

from __future__ import annotations

SECRETS = tuple(
    """
    .ssh/ .gnupg/ .password-store/ .netrc .git-credentials .config/git/credentials .config/gh/ .config/hub
    .config/glab-cli/ .config/tea/ .aws/ .azure/ .oci/ .config/gcloud/ .boto .s3cfg .config/rclone/ .rclone.conf
    .config/doctl/ .config/hcloud/ .config/scw/ .config/flyctl/ .fly/ .config/heroku/ .bluemix/
    .databrickscfg .snowsql/ .dbt/ .kube/ .docker/ .config/containers/ .config/helm/ .vault-token .config/argocd/
    .terraform.d/credentials.tfrc.json .terraformrc .pulumi/credentials.json .config/sops/ .config/age/ .age/
    .npmrc .yarnrc.yml .yarnrc .bunfig.toml .pypirc .config/pip/ .pip/ .config/pypoetry/ .config/uv/
    .local/share/uv/credentials/ .cargo/credentials .cargo/credentials.toml .gem/credentials .bundle/config
    .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .composer/auth.json .config/composer/auth.json
    .nuget/NuGet/ .config/NuGet/ .cpanm/ .condarc .config/anaconda/ .kaggle/ .config/kaggle/ .cache/huggingface/token
    .cache/huggingface/stored_tokens .huggingface/ .config/wandb/ .config/op/ .1password/
    .config/Bitwarden/ .config/keepassxc/ .local/share/keyrings/ .local/share/kwalletd/ .local/share/gopass/
    .config/gopass/ .electrum/ .bitcoin/ .ethereum/ .mozilla/ .config/google-chrome/ .config/chromium/
    .config/BraveSoftware/ .config/microsoft-edge/ .config/vivaldi/ .config/opera/ .librewolf/ .thunderbird/
    .config/evolution/ .local/share/evolution/ .config/Signal/ .config/Slack/ .config/discord/
    .local/share/TelegramDesktop/ .config/msmtp/ .msmtprc .mbsyncrc .fetchmailrc .mutt/ .config/neomutt/
    .local/share/opencode/ .claude/.credentials.json .claude.json .codex/auth.json .gemini/ .config/github-copilot/
    .config/goose/ .aider.conf.yml .continue/ .config/Cursor/ .local/share/amp/ .qwen/ .config/anthropic/
    .bash_history .zsh_history .local/share/fish/fish_history .python_history .node_repl_history .irb_history
    .psql_history .mysql_history .rediscli_history .sqlite_history
    .pgpass .my.cnf .mylogin.cnf .config/mycli/ .config/pgcli/ .config/filezilla/ .config/remmina/ .local/share/remmina/
    .vnc/ .config/syncthing/ .local/state/syncthing/ .config/tailscale/ .config/ngrok/
    .ngrok2/ .cloudflared/ .config/cloudflared/ .config/.wrangler/ .config/vercel/ .local/share/com.vercel.cli/
    .config/netlify/ .config/sentry/ .sentryclirc .config/stripe/ .config/shopify/ .step/
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""In the home directory: credentials, conversations and histories."""

STARTED = tuple(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .profile .inputrc .zshrc .zshenv
    .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .config/fish/ .config/nushell/
    .config/powershell/ .xprofile .xinitrc .xsession .xsessionrc .Xresources .pam_environment .config/autostart/
    .config/environment.d/ .config/systemd/ .local/share/systemd/ .config/plasma-workspace/ .config/i3/ .config/sway/
    .config/hypr/ .local/share/applications/ .local/share/dbus-1/ .local/share/autostart/ .local/share/bash-completion/
    .local/bin/ bin/ .gitconfig .config/git/ .git-templates/ .hgrc .config/hg/ .config/jj/ .jjconfig.toml
    .vimrc .vim/ .gvimrc .exrc .config/nvim/ .local/share/nvim/ .emacs .emacs.d/ .config/emacs/ .nanorc
    .config/helix/ .tmux.conf .config/tmux/ .screenrc .config/direnv/ .direnvrc .config/mise/ .tool-versions
    .config/Code/ .vscode/extensions/ .vscode-server/ .npm-global/ .pythonrc .pdbrc .ipython/ .gdbinit .config/gdb/
    .lldbinit .irbrc .pryrc .Rprofile .cargo/config .cargo/config.toml .cargo/bin/ .gradle/init.d/ .gradle/init.gradle
    .m2/extensions.xml .mavenrc .config/pnpm/ .bun/bin/ .deno/bin/ go/bin/ .asdf/ .pyenv/ .rbenv/ .nvm/
    .config/starship.toml .config/atuin/ .oh-my-zsh/ .zsh/ .config/zsh/ .forward .procmailrc .mailcap .lessfilter
    .claude/settings.json .codex/config.toml .config/opencode/ .Brewfile .envrc .editrc
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""In the home directory: files that programs execute when they start, and directories of programs in PATH. For users
whose project contains the home directory, or a part of it."""

MOVED = {
    ".aws/config": "AWS_CONFIG_FILE",
    ".aws/credentials": "AWS_SHARED_CREDENTIALS_FILE",
    ".azure": "AZURE_CONFIG_DIR",
    ".bash_history": "HISTFILE",
    ".boto": "BOTO_CONFIG",
    ".cache": "XDG_CACHE_HOME",
    ".cache/huggingface": "HF_HOME",
    ".cargo": "CARGO_HOME",
    ".claude": "CLAUDE_CONFIG_DIR",
    ".codex": "CODEX_HOME",
    ".composer": "COMPOSER_HOME",
    ".config": "XDG_CONFIG_HOME",
    ".config/gcloud": "CLOUDSDK_CONFIG",
    ".config/gh": "GH_CONFIG_DIR",
    ".config/glab-cli": "GLAB_CONFIG_DIR",
    ".config/pip/pip.conf": "PIP_CONFIG_FILE",
    ".config/rclone/rclone.conf": "RCLONE_CONFIG",
    ".databrickscfg": "DATABRICKS_CONFIG_FILE",
    ".docker": "DOCKER_CONFIG",
    ".gnupg": "GNUPGHOME",
    ".gradle": "GRADLE_USER_HOME",
    ".kube/config": "KUBECONFIG",
    ".local/share": "XDG_DATA_HOME",
    ".local/state": "XDG_STATE_HOME",
    ".netrc": "NETRC",
    ".npmrc": "NPM_CONFIG_USERCONFIG",
    ".oci/config": "OCI_CLI_CONFIG_FILE",
    ".password-store": "PASSWORD_STORE_DIR",
    ".pgpass": "PGPASSFILE",
    ".psql_history": "PSQL_HISTORY",
    ".pulumi": "PULUMI_HOME",
    ".terraformrc": "TF_CLI_CONFIG_FILE",
}
"""Variables that move a directory or file of the home directory elsewhere; one may list several, as in PATH."""

SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-")
SOCKETS = ("/run", "/var/run")
"""Directories with sockets of host services, such as container engines, message buses and agents."""
SOCKETS_EXCEPT = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")
"""Programs on NixOS."""
TEMPORARY = ("/tmp", "/var/tmp")

CONFIGURATION = ("opencode.json", "opencode.jsonc", ".opencode", ".envrc")
"""In a project: files that this runtime and direnv read."""
EXECUTED_BY_GIT = ("hooks/", "config", "config.worktree", "info/", "modules/", "worktrees/", "commondir", "gitdir")
"""In a git directory: files that name programs, or other directories with such files."""
GIT_HOOKS = tuple(
    """
    applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit
    pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update
    reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman
    p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""The names of all hooks that git executes."""

HARMLESS_SETTINGS = tuple(
    """
    core.repositoryformatversion core.filemode core.bare core.logallrefupdates core.ignorecase core.precomposeunicode
    core.symlinks core.autocrlf core.eol core.safecrlf core.abbrev core.compression core.bigfilethreshold
    core.quotepath core.longpaths core.sparsecheckout core.sparsecheckoutcone core.untrackedcache core.worktree
    core.commentchar core.sharedrepository core.preloadindex core.multipackindex core.commitgraph
    extensions.objectformat extensions.refstorage extensions.worktreeconfig extensions.partialclone
    extensions.compatobjectformat extensions.relativeworktrees
    remote.*.url remote.*.pushurl remote.*.fetch remote.*.push remote.*.tagopt remote.*.prune remote.*.mirror
    remote.*.promisor remote.*.partialclonefilter remote.*.skipfetchall remote.*.skipdefaultupdate
    remote.*.followremotehead remote.pushdefault
    branch.*.remote branch.*.merge branch.*.rebase branch.*.pushremote branch.*.description branch.*.vscode-merge-base
    branch.*.gh-merge-base branch.autosetupmerge branch.autosetuprebase branch.sort
    submodule.*.url submodule.*.active submodule.*.branch submodule.*.path submodule.*.ignore
    submodule.*.fetchrecursesubmodules submodule.recurse submodule.active submodule.fetchjobs
    user.name user.email user.useconfigonly author.name author.email committer.name committer.email
    init.defaultbranch pull.rebase pull.ff push.default push.autosetupremote push.followtags fetch.prune
    fetch.prunetags fetch.parallel fetch.writecommitgraph merge.ff merge.conflictstyle merge.renames rebase.autostash
    rebase.autosquash rerere.enabled rerere.autoupdate commit.gpgsign commit.verbose tag.gpgsign tag.sort
    status.showuntrackedfiles status.branch status.short log.date log.follow diff.renames diff.algorithm
    diff.mnemonicprefix diff.colormoved gc.auto gc.autodetach gc.pruneexpire gc.reflogexpire maintenance.auto
    maintenance.strategy pack.threads index.version index.threads index.sparse feature.manyfiles
    feature.experimental lfs.repositoryformatversion lfs.*.access color.ui color.*.* advice.* column.ui i18n.*
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Settings of a git repository that neither name a program nor a file with further settings. `*` is any text."""
