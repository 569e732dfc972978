"""Tables of known programs and their subcommands, by which commands are judged."""

from __future__ import annotations

from typing import Final

from wane.tools.usages import USAGES


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


NEUTRAL: Final = word_set("""
    cd pushd popd echo printf true false : sleep wait export unset set shopt source . alias unalias ulimit trap clear
    exit return break continue shift local declare typeset readonly read test [ [[ let hash jobs fg bg disown umask
    for case select done fi esac } in yes seq history
""")
"""Programs and shell words that say nothing about the work."""

KEYWORDS: Final = word_set("do then else elif if while until ! { time")
"""Shell words that may precede a command."""

_READING: Final = frozenset(key[0] for key, (usage, *_) in USAGES.items() if usage.operands or not usage.required)
"""Programs that do more than say their version and of which it is known how they only read: the one table of these."""

EXPLORING: Final = (_READING - NEUTRAL - {"git", "command", "openssl", "unzip"}) | word_set("""
    ack ag apropos bat batcat bzcat cloc curl dig dmesg exa exiftool eza ffprobe getent help host htop identify
    ifconfig info iostat ip ipcs journalctl ldd less look lsblk lsmod lsof lspci man more mount netstat nm
    nslookup nvidia-smi objdump pdfinfo pdftotext pgrep ping printenv ps readelf search size ss tldr tokei top
    tput vmstat web whence xargs xzcat yq zcat zgrep zless
""")
"""Programs that only look."""

READERS: Final = word_set(
    "cat head tail less more bat batcat nl tac wc file stat diff cmp comm sort uniq xxd hexdump strings"
)
"""Programs that read all their arguments as files."""

_SCRIPTS: Final = frozenset({"text", "sed", "awk", "jq"})
SEARCHERS: Final = word_set("zgrep ag ack yq") | frozenset(
    key[0]
    for key, usages in USAGES.items()
    if usages[0].operands[1:] == ("path*",)
    and usages[0].operands[0] in _SCRIPTS
    and key[0] not in ("fd", "fdfind", "git")
)
"""Programs whose first argument is a pattern or a script, and whose other arguments are files to read."""

LISTING: Final = word_set("grep egrep fgrep zgrep rg ag ack find fd fdfind ls tree exa eza locate which whereis")
"""Programs that search or list."""

FILTERS: Final = word_set("head tail sort uniq wc cut tr nl column sed awk gawk rev tac cat less more jq paste")
"""Programs that pass on a part of their input, unless they are given a file."""

ACTING: Final = word_set("""
    rm mv cp mkdir rmdir touch ln chmod chown chgrp dd truncate install patch apply_patch applypatch tee rsync scp sftp
    kill pkill killall crontab useradd userdel usermod groupadd passwd gzip gunzip bzip2 xz zip unzip 7z mkfs mkfifo
    shred split csplit ed ex black isort autopep8 yapf rustfmt shfmt dos2unix mktemp update-alternatives
    a2ensite a2enmod ldconfig locale-gen ssh-keygen openssl mkpasswd htpasswd chpasswd virtualenv swapon swapoff
    qemu-img convert ffmpeg setcap loginctl
""")
"""Programs that change something."""

WRAPPERS: Final[dict[str, int]] = {
    "sudo": 0, "env": 0, "nohup": 0, "nice": 0, "stdbuf": 0, "command": 0, "exec": 0, "builtin": 0, "doas": 0,
    "timeout": 1, "gtimeout": 1, "npx": 0, "bunx": 0, "pnpx": 0, "xvfb-run": 0, "setsid": 0, "unbuffer": 0,
    "ionice": 0, "chronic": 0, "caffeinate": 0, "script": 0, "strace": 0, "watch": 0, "xargs": 0, "eatmydata": 0,
}  # fmt: skip
"""Programs that run the command that follows, and how many arguments of their own come first."""

WRAPPER_OPTIONS: Final = word_set(
    "-u -g -n -k -s -i -I -P -L -d -C -o -p -E -a --signal --kill-after --user --max-procs"
)
"""Options of wrappers that take a value."""

WRAPPING: Final = frozenset({
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"), ("rye", "run"),
    ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "dlx"), ("yarn", "exec"), ("npm", "exec"), ("bun", "x"),
    ("bundle", "exec"), ("mise", "exec"), ("mise", "x"), ("conda", "run"), ("nix", "run"), ("direnv", "exec"),
    ("uv", "pip"),
})  # fmt: skip
"""Pairs of program and subcommand that run the command that follows, or act like it."""

SHELLS: Final = word_set("bash sh zsh dash ksh fish")
"""Shells, whose `-c` is judged as a command line."""

INTERPRETERS: Final = word_set(
    "python python2 python3 node deno bun ruby perl php R Rscript julia lua ts-node tsx ipython"
)
"""Interpreters; a script on the command line is judged by what it writes."""

DATABASES: Final = word_set("sqlite3 psql mysql mariadb duckdb mongosh redis-cli")
"""Database clients, judged by their statements."""

INSTALLERS: Final = word_set(
    "apt apt-get dnf yum apk pacman brew snap conda mamba port zypper dpkg rpm gem opam pip pip3 pipx"
)
"""Package managers: they change something unless the subcommand only looks."""

SERVICES: Final = word_set("systemctl service docker podman kubectl docker-compose helm supervisorctl tmux screen")
"""Service managers: they change something unless the subcommand only looks."""

BUILDERS: Final = word_set(
    "npm pnpm yarn bun cargo go make gmake just task mise gradle mvn dotnet composer mix rake uv poetry"
)
"""Tools that build and test, and sometimes install."""

LOOKING: Final = word_set("""
    list ls show view info search status get describe inspect log logs cat help version diff why outdated tree
    metadata policy freeze check-ignore audit images ps top events explain history depends rdepends whoami doc env
    capture capture-pane display-message list-windows list-sessions list-panes has-session ready blame find query
    cluster-info api-resources stats port is-active is-enabled list-units -l -L -s -S -V
    --list --version --help -h
""")
"""Subcommands that only look, whatever the program."""

CHANGING: Final = word_set("""
    create add remove rm delete uninstall install i ci update upgrade set edit close reopen merge push apply init new
    comment link unlink publish deploy clean get mod generate fmt format fix sync lock venv tool config
    restart start stop enable disable reload require version pack self-update migrate claim assign
""")
"""Subcommands that change something, of build tools and unknown programs."""

GIT_REVIEW: Final = word_set("status diff show log shortlog diff-tree diff-index range-diff whatchanged")
"""Git subcommands that look at one's own work."""

_GIT_LISTS: Final[dict[str, frozenset[str]]] = {
    "branch": word_set("-a -r -v -vv -av -avv --all --remotes --show-current"),
    "tag": word_set("--sort"),
    "remote": word_set("-v show"),
    "stash": frozenset(),
    "worktree": frozenset(),
    "config": frozenset(),
    "submodule": word_set("status"),
    "notes": word_set("show list"),
    "bisect": word_set("visualize"),
}

_GIT: Final = frozenset(key[1] for key in USAGES if key[0] == "git" and len(key) > 1)

GIT_EXPLORING: Final = (_GIT - GIT_REVIEW - _GIT_LISTS.keys()) | word_set(
    "ls-remote var help fetch merge-tree show-branch"
)
"""Other Git subcommands that only look."""


def _git_lists() -> dict[str, frozenset[str]]:
    """Return what the table has of the subcommands that can also change something, beside what it leaves out."""
    lists = dict(_GIT_LISTS)
    for key, usages in USAGES.items():
        if key[0] == "git" and key[1:2] and key[1] in lists:
            required = [option for usage in usages for option in usage.required]
            lists[key[1]] |= {*key[2:], *required}
    return lists


GIT_LISTS: Final = _git_lists()
"""Git subcommands that only look if they have no arguments, or if one of these comes first."""

GH_EXPLORING: Final = word_set("view list status diff checks watch download search")
"""Verbs of GitHub's command line that only look."""

_CHANGING_WORDS: Final = (
    "fix|format|fmt|write|generate|gen|codegen|migrate|deploy|publish|release|clean|install|setup|seed"
)
CHANGING_SCRIPT: Final = rf"(^|[:\-_.])({_CHANGING_WORDS})($|[:\-_.])"
"""Names of a project's scripts or targets that change something."""
