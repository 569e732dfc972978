"""What may be said to programs so that they only read: one table, which says what is allowed and never what is not.

A line, continued by lines that begin with blanks, is a program, with its subcommand, and one way to use it:

- `-abc`: options of one letter without a value, which may be written together; `-#` is a number such as `-20`
- `-n=KIND`, `--lines=KIND`: options with a value, of the kind below; without KIND the value is a text
- `-u[=]`, `--color[=]`: options that may have a value, attached to them
- `!--list,-l`: one of these must be there
- `words`: options are whole words, never letters written together, and values follow as words of their own; `--` ends
  no options
- `apart`: values follow as words of their own, because the program reads what stands behind the letter as options
- behind `|`: the operands in order, with `*` for any number of them, or `?` if it may be missing; a word that is no
  kind is one that must stand there

| kind | value |
|---|---|
| `text` | any text, which names no file |
| `echoed` | likewise, and the program takes no options, so that the shell may expand it |
| `path` | a file below the directory, over links too; none like `+2f`, an old option with which `tail` waits for ever |
| `tested` | likewise, or a number that the shell knows |
| `tree` | likewise, with all that is below it, because the program follows links there |
| `mark` | a text that separates fields |
| `pattern` | a text that takes the place of the first operand |
| `patterns` | a file below the directory, whose lines do so |
| `pair` | two texts |
| `format` | a format or order of Git that verifies no signature, which would start a program |
| `plus` | a text that begins with `+` |
| `few` | a number of at most two digits |
| `amount` | a number, with a sign or a unit if need be: `tail -cf` has such an old option, too |
| `name` | a program's name, without a path |
| `printed` | a format of `printf` that sets no variable |
| `archive` | a file below the directory that is there, with a suffix of archives, and without marks of patterns |
| `setting` | a setting of Git, and none of the words with which it changes settings |
| `sed`, `awk`, `jq` | a script that prints parts of its input; as an option's value it takes the operand's place |

A text that is a word of its own, and no pattern or mark, must be a name below the directory all the same, and may not
begin with `-`: a release in which the option takes no value would take it for a file or an option. For the same reason
options of Git that list branches and the like have values only if they are attached: Git would make a branch of others.

An option that follows links, writes a file, starts a program, waits for ever or names files in a file is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_TABLE: Final = r"""
: | echoed*
true | echoed*
false | echoed*
echo -neE | echoed*
printf | printed echoed*
pwd -LP | none
exit | few?
set !-e,-u,-x -eux | none
sleep | few
test words -b -c -d -e -f -g -h -k -L -n -p -r -s -S -u -w -x -z -O -G -a -o -eq -ne -gt -ge -lt -le -nt -ot -ef |
    tested*
[ words -b -c -d -e -f -g -h -k -L -n -p -r -s -S -u -w -x -z -O -G -a -o -eq -ne -gt -ge -lt -le -nt -ot -ef |
    tested*
type -at | name*
command !-v,-V -vV | name*
which -a | name*
whereis -bms | name*

ls -1aAbBcCdfFgGhiIklmnNopqQrRsStTuUvwxXZ --all --almost-all --author --color[=] --directory --classify[=] --full-time
    --group-directories-first --human-readable --inode --recursive --reverse --size --sort= --time= --time-style=
    --format= --ignore= --hide= --no-group --numeric-uid-gid --si -I= | path*
cat -AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-tabs --squeeze-blank --show-nonprinting |
    path*
head -qvz -n=amount -c=amount -# --lines=amount --bytes=amount --quiet --verbose | path*
tail -qvz -n=amount -c=amount -# --lines=amount --bytes=amount --quiet --verbose | path*
wc -clmwL --bytes --chars --lines --words --max-line-length | path*
nl -b= -s= -w= -v= -n= -i= | path*
tac -b -s= | path*
rev | path*
fold -sb -w= --width= --spaces | path*
fmt -us -w= --width= | path*
cut -sz -d=mark -f= -c= -b= --delimiter=mark --fields= --characters= --bytes= --complement --only-delimited
    --output-delimiter= | path*
tr -cCdst | text*
paste -sz -d=mark --delimiters= --serial | path*
column -txneRr -s=mark -c= -o= -N= --table --separator= | path*
expand -i -t= --tabs= | path*
unexpand -a -t= --tabs= | path*
join -i -t=mark -1= -2= -j= -a= -v= -e= -o= | path*
comm -123z --check-order --nocheck-order --output-delimiter= --total | path*
cmp -bls -n= -i= --silent --quiet --print-bytes --verbose | path*
diff -abBcdeEiNnpqrsTtuwyZ -U= -C= -W= -x= -I= -L= --brief --color[=] --context[=] --unified[=] --exclude=
    --ignore-all-space --ignore-blank-lines --ignore-case --ignore-space-change --label= --new-file --recursive
    --report-identical-files --side-by-side --strip-trailing-cr --suppress-common-lines --text --width= --minimal
    --no-dereference | tree*
sort -bdfgiMhnRrVmsuzcC -k= -t=mark --key= --field-separator=mark --numeric-sort --human-numeric-sort --version-sort
    --general-numeric-sort --month-sort --reverse --unique --stable --ignore-case --ignore-leading-blanks
    --dictionary-order --check[=] --zero-terminated | path*
uniq -cdDiuz -f= -s= -w= --count --repeated --unique --ignore-case --skip-fields= --skip-chars= --check-chars= | path?
grep -abcEFGHhiILlnoPqrsUvwxyTzZ -# -e=pattern -f=patterns -m= -A= -B= -C= -D= --after-context= --before-context=
    --context= --basic-regexp --byte-offset --color[=] --colour[=] --count --exclude= --exclude-dir= --extended-regexp
    --file=patterns --files-with-matches --files-without-match --fixed-strings --ignore-case --include= --initial-tab
    --invert-match --line-number --line-regexp --max-count= --no-filename --no-messages --null --null-data
    --only-matching --perl-regexp --quiet --recursive --regexp=pattern --silent --text --with-filename --word-regexp |
    text path*
egrep = grep
fgrep = grep
rg -abcFHhiIlNnopPqsSuUvVwx0. -# -A= -B= -C= -d= -e=pattern -E= -f=patterns -g= -j= -m= -M= -r= -t= -T=
    --after-context= --before-context= --color= --column --context= --count --count-matches --debug --encoding=
    --files-with-matches --files-without-match --file=patterns --fixed-strings --glob= --heading --hidden --iglob=
    --ignore-case --invert-match --json --line-number --line-regexp --max-columns= --max-count= --max-depth=
    --max-filesize= --multiline --multiline-dotall --no-config --no-filename --no-heading --no-ignore --no-ignore-vcs
    --no-line-number --no-messages --null --only-matching --passthru --pcre2 --pretty --quiet --regexp=pattern
    --replace= --smart-case --sort= --sortr= --stats --text --threads= --trim --type= --type-not= --unrestricted
    --vimgrep --with-filename --word-regexp | text path*
rg !--files --files -uHlN0. -g= -t= -T= -d= --glob= --hidden --iglob= --max-depth= --no-config --no-ignore
    --no-ignore-vcs --null --sort= --sortr= --type= --type-not= | path*
rg !--type-list --type-list | none
find words -maxdepth= -mindepth= -name= -iname= -path= -ipath= -wholename= -iwholename= -regex= -iregex= -regextype=
    -type= -size= -mtime= -mmin= -ctime= -cmin= -atime= -amin= -newer=path -newermt= -samefile=path -inum= -links=
    -perm= -user= -group= -uid= -gid= -nouser -nogroup -empty -readable -writable -executable -print -print0 -printf=
    -ls -prune -quit -depth -d -xdev -mount -true -false -not -a -o -and -or -P -daystart -noleaf -lname= -ilname= |
    path*
fd -aHIijsgpFu0q1 -d= -e= -E= -t= -S= -c= -j= --absolute-path --color= --exclude= --extension= --fixed-strings
    --full-path --glob --hidden --ignore-case --max-depth= --min-depth= --max-results= --no-ignore --print0 --size=
    --type= --changed-within= --changed-before= | text path*
fdfind = fd
tree apart -adfihpugDFCnASJQsrtUv -L= -I= -P= --dirsfirst --noreport --gitignore --filelimit= --prune --charset= --du
    --sort= | path*
stat -ft -c= --format= --printf= --file-system --terse | path*
file -bik --brief --mime --mime-type --mime-encoding --extension | path*
du -0abchkmsxS -d= -t= -B= --all --apparent-size --block-size= --bytes --exclude= --human-readable --max-depth=
    --one-file-system --summarize --threshold= --time[=] --total --separate-dirs | path*
df -ahHiklPT -t= -x= -B= --all --human-readable --inodes --local --output[=] --print-type --si --total --type= | path*
readlink -efmnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline | path*
realpath -emqsLPz --relative-to=path --relative-base=path --canonicalize-existing --canonicalize-missing --no-symlinks
    | path*
basename -az -s= --multiple --suffix= | text*
dirname -z | text*
md5sum -bt --binary --text --tag | path*
sha1sum = md5sum
sha224sum = md5sum
sha256sum = md5sum
sha384sum = md5sum
sha512sum = md5sum
b2sum = md5sum
cksum -a= | path*
sum -rs | path*
shasum -bt -a= | path*
base64 -dDi -w= --decode --wrap= | path?
od -abcdfhilosvx -A= -t= -N= -j= -w[=] --address-radix= --format= --read-bytes= --skip-bytes= | path*
xxd -abeEipu -c= -g= -l= -o= -s= | path?
hexdump -bcCdovx -n= -s= | path*
strings -af -n= -t= -e= -# --all --bytes= --radix= | path*
sed -nErsuz -e=sed --quiet --silent --regexp-extended --expression=sed | sed path*
awk -F=mark -v= | awk path*
gawk = awk
mawk = awk
jq -acCeMnrRsSj --arg=pair --argjson=pair --compact-output --color-output --exit-status --indent= --join-output
    --monochrome-output --null-input --raw-input --raw-output --slurp --sort-keys --tab | jq path*
unzip !-l,-v -lqv | archive
zipinfo -12lsmhtz | archive

date -uR -I[=] -d= -r=path --date= --iso-8601[=] --reference=path --rfc-2822 --rfc-3339= --rfc-email --universal --utc
    | plus?
cal -13jmy | few*
uptime -ps | none
uname -amnoprsvi --all --kernel-name --kernel-release --machine --operating-system | none
hostname | none
whoami | none
id -ugGnrz --user --group --groups --name --real | text?
groups | text?
nproc --all --ignore= | none
arch | none
free -bkmghtwl --bytes --kibi --mebi --gibi --human --total | none
lscpu -aebcJpxy | none
tty -s | none
locale -a | none
getconf -a | text?
seq -w -s=mark -f= | few few?
expr | text*

python !--version,-V --version -V | none
python2 = python
python3 = python
node !--version,-v --version -v | none
ruby = node
perl = node
php = node
java !--version,-version,-fullversion words --version -version -fullversion | none
javac = java
gcc !--version,-dumpversion words --version -dumpversion | none
g++ = gcc
cc = gcc
c++ = gcc
clang = gcc
make !--version,-v --version -v | none
gmake = make
cmake !--version --version | none
ninja = cmake
tsc = cmake
npm !--version,-v --version -v | none
pip !--version,-V --version -V | none
pip3 = pip
uv = pip
ruff = pip
black = cmake
docker !--version,-v --version -v | none
curl = pip
wget = pip
bash !--version --version | none
zsh = bash
psql = pip
sqlite3 words !--version,-version --version -version | none
openssl | version
rg !--version,-V --version -V | none
jq !--version,-V --version -V | none
grep !--version,-V --version -V | none
sed !--version --version | none
awk !--version,-V --version -V | none
gawk !--version,-V --version -V | none
tar !--version --version | none
find words !--version,-version --version -version | none
ls !--version --version | none
tree !--version --version | none

git !--version,-v --version -v | none
git version --build-options | none
git status -sbvz -u[=] --short --branch --verbose --porcelain[=] --long --ignored[=] --untracked-files[=] --show-stash
    --no-renames --renames --ahead-behind --no-ahead-behind --column[=] --no-column | path*
git log LOG | path*
git whatchanged = git log
git show = git log
git diff LOG -a -R --cached --staged --merge-base --exit-code --quiet -q --check --no-prefix --base --ours --theirs |
    path*
git diff-tree LOG --root --cc -c -m -v --stdin | path*
git reflog LOG | none
git reflog show LOG | path*
git stash list LOG | none
git stash show LOG -u --include-untracked --only-untracked | text?
git shortlog -sne -w[=] -c --summary --numbered --email --group[=]format --no-merges --since[=] --until[=] --after[=]
    --before[=] --author[=] --all | path*
git branch -arvq --all --remotes --verbose --show-current --sort[=]format --format[=]format --no-color --color[=]
    --column[=] --no-column --abbrev[=] | none
git branch !--list,--merged,--no-merged,--contains,--no-contains,--points-at -arvi --list --all --remotes --verbose
    --sort[=]format --format[=]format --merged[=] --no-merged[=] --contains[=] --no-contains[=] --points-at[=]
    --ignore-case --no-color | text*
git tag -n[=] --sort[=]format --format[=]format --column[=] | none
git tag !-l,--list,--contains,--no-contains,--merged,--no-merged,--points-at -li -n[=] --list --contains[=]
    --no-contains[=] --merged[=] --no-merged[=] --points-at[=] --sort[=]format --format[=]format --ignore-case | text*
git remote -v --verbose | none
git remote get-url --all --push | text
git config !--list,-l -lz --list --local --worktree --null --name-only --show-origin --show-scope
    --includes --no-includes | none
git config !--get,--get-all,--get-regexp,--get-urlmatch -z --get --get-all --get-regexp --get-urlmatch --local
    --null --name-only --show-origin --show-scope --bool --int --path --type[=] --default[=] | setting
    text?
git config --local --show-origin --show-scope --bool --int --type[=] | setting
git config list -z --local --show-origin --show-scope --name-only | none
git config get -z --all --local --show-origin --show-scope --default[=] --type[=] | setting
git rev-parse -q --abbrev-ref[=] --short[=] --verify --quiet --show-toplevel --show-prefix --show-cdup
    --show-superproject-working-tree --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree
    --is-inside-git-dir --is-bare-repository --is-shallow-repository --symbolic --symbolic-full-name --all
    --branches[=] --tags[=] --remotes[=] --revs-only --no-revs --sq --show-object-format[=] | path*
git rev-list -# -n= --all --count --max-count= --skip= --since= --until= --author= --grep= --no-merges --merges
    --first-parent --reverse --left-right --branches[=] --tags[=] --remotes[=] --oneline --abbrev-commit --parents
    --objects --topo-order --date-order --ancestry-path --max-parents= | path*
git ls-files -cdimostuvkz -x= --cached --deleted --modified --others --ignored --stage --unmerged --killed --exclude[=]
    --exclude-standard --full-name --error-unmatch --directory --no-empty-directory --eol --deduplicate --abbrev[=]
    --with-tree[=] --format[=]format | path*
git ls-tree -drtlz --long --name-only --name-status --object-only --full-name --full-tree --abbrev[=] | path*
git cat-file -ptse | text text?
git show-ref -dsq --head --heads --branches --tags --dereference --verify --quiet --hash[=] --abbrev[=] --exists |
    text*
git for-each-ref --count[=] --format[=]format --sort[=]format --points-at[=] --contains[=] --no-contains[=] --merged[=]
    --no-merged[=] --ignore-case | text*
git merge-base -a --all --octopus --is-ancestor --fork-point --independent | path*
git name-rev --tags --all --name-only --always --refs[=] --exclude[=] | path*
git describe --all --tags --always --long --contains --exact-match --first-parent --abbrev[=] --match[=] --exclude[=]
    --candidates[=] | path*
git blame -bcefhklMnpstwC -L= -M[=] -C[=] --date[=] --since[=] --porcelain --line-porcelain --root --show-name
    --show-number --show-email --abbrev[=] --color-lines --first-parent --ignore-rev[=] --reverse | path*
git annotate = git blame
git grep -abcEFGHhIiLlnoPpqvwWz -# -A= -B= -C= -e=pattern -m= --after-context= --before-context= --break --cached
    --color[=] --column --context= --count --extended-regexp --files-with-matches --files-without-match
    --fixed-strings --full-name --heading --ignore-case --invert-match --line-number --max-count= --max-depth=
    --name-only --not --null --only-matching --perl-regexp --quiet --show-function --text --threads= --untracked
    --word-regexp --all-match --and --or | text path*
git check-ignore -qvnz --quiet --verbose --non-matching --no-index | path*
git check-attr -az --all --cached | path*
git count-objects -vH --verbose --human-readable | none
git cherry -v --abbrev[=] | path*
git worktree list -vz --verbose --porcelain | none
git bisect log | none
"""

_LOG: Final = """
-# -pusiEFPgzwbrtW -n= -L= -S= -G= -U= -M[=] -C[=] -B[=] --abbrev[=] --abbrev-commit --after= --all --all-match
--ancestry-path --author= --author-date-order --before= --binary --boundary --branches[=] --cherry --cherry-mark
--cherry-pick --children --color[=] --color-moved[=] --color-words[=] --committer= --compact-summary --date-order
--date= --decorate-refs= --decorate[=] --dense --diff-algorithm= --diff-filter= --dirstat[=] --exclude=
--extended-regexp --find-copies-harder --find-copies[=] --find-renames[=] --first-parent --fixed-strings --follow
--format=format --full-history --full-index --function-context --graph --grep= --histogram --ignore-all-space
--ignore-blank-lines --ignore-matching-lines= --ignore-space-at-eol --ignore-space-change --inter-hunk-context=
--invert-grep --left-right --line-prefix= --max-count= --max-parents= --merges --min-parents= --minimal --name-only
--name-status --no-abbrev-commit --no-color --no-decorate --no-ext-diff --no-merges --no-notes --no-patch --no-prefix
--no-renames --no-show-signature --no-textconv --numstat --oneline --parents --patch --patch-with-stat --patience
--perl-regexp --pickaxe-all --pickaxe-regex --pretty[=]format --raw --regexp-ignore-case --relative-date --relative[=]
--remotes[=] --remove-empty --reverse --shortstat --show-pulls --simplify-by-decoration --since= --skip= --source
--sparse --stat-count= --stat-graph-width= --stat-name-width= --stat-width= --stat[=] --summary --tags[=] --text
--topo-order --unified= --until= --walk-reflogs --word-diff-regex= --word-diff[=] --ws-error-highlight=
"""
"""Options of `git log` and of all that shows commits or differences."""

_PLAIN_TABLE: Final = """
ls -1aAdFghlkmnopqQrsStUvx --all --almost-all --directory --full-time --human-readable --inode --reverse --size |
    path*
cat -AbeEnstTuv | path*
head -qv -n=amount -c=amount -# --lines=amount --bytes=amount --quiet --verbose | path*
tail -qv -n=amount -c=amount -# --lines=amount --bytes=amount --quiet --verbose | path*
wc -clmwL --bytes --chars --lines --words --max-line-length | path*
grep -acEFGhHiLlnoqsvwx -# -e=pattern -m= -A= -B= -C= --color[=] --count --extended-regexp --files-with-matches
    --files-without-match --fixed-strings --ignore-case --invert-match --line-number --line-regexp --no-filename
    --only-matching --quiet --silent --with-filename --word-regexp | text path*
test words -b -c -d -e -f -g -h -k -L -n -p -r -s -S -u -w -x -z -O -G -a -o -eq -ne -gt -ge -lt -le -nt -ot -ef |
    tested*
[ = test
false | echoed*
date -uR -I[=] --iso-8601[=] --rfc-email --universal --utc | plus?
"""
"""What may run where nothing keeps a program from doing more: a few programs of which none has a language of its own,
starts others, or goes through directories by itself. `X --version` of the large table is added to it, but for Git, of
which nothing is here: what it reads by itself may be somebody else's."""

_IDLE_TABLE: Final = """
: | echoed*
true | echoed*
echo | echoed*
pwd -LP | none
cat -AbeEnstTuv | none
head -qv -n=amount -c=amount -# --lines=amount --bytes=amount --quiet --verbose | none
tail -qv -n=amount -c=amount -# --lines=amount --bytes=amount --quiet --verbose | none
wc -clmwL --bytes --chars --lines --words --max-line-length | none
sort -bdfghMnrRVuz -k= -t=mark --key= --field-separator=mark --numeric-sort --human-numeric-sort --version-sort
    --general-numeric-sort --month-sort --reverse --unique --ignore-case --ignore-leading-blanks --dictionary-order |
    none
uniq -cdDiuz -f= -s= -w= --count --repeated --unique --ignore-case | none
grep -acEFGhHiLlnoqsvwx -# -e=pattern -m= -A= -B= -C= --color[=] --count --extended-regexp --fixed-strings
    --ignore-case --invert-match --line-number --line-regexp --only-matching --quiet --silent --word-regexp | text
"""
"""What may stand in one line with a command that a rule allows, beside `cd`: the line runs as a whole, outside of the
sandbox, with all variables, and what the allowed command has done may have changed any file. So these read no file,
no variable and no program text: they say what stands in the line, or take parts of their input."""


@dataclass(frozen=True, slots=True)
class ReadingUse:
    """One way to use a program so that it only reads.

    Attributes:
        options: kinds of the options' values by option; an empty kind for options without one.
        optional: options whose value, if they have one, is attached to them.
        required: options of which one must be there; empty if none must.
        operands: kinds of the operands.
        words: whether options are whole words.
        apart: whether no value is attached to its option's letter.
    """

    options: Mapping[str, str]
    optional: frozenset[str]
    required: frozenset[str]
    operands: tuple[str, ...]
    words: bool
    apart: bool = False

    def split(self, word: str) -> list[tuple[str, str | None]] | None:
        """Return the options that a word holds, each with the value that is attached to it; None if one is unknown."""
        if word in self.options:
            return [(word, None)]
        if self.words:
            return None
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            return [(name, value)] if equals and self.options.get(name) else None
        if re.fullmatch(r"-[0-9]+", word) and "-#" in self.options:
            return [("-#", None)]
        options: list[tuple[str, str | None]] = []
        for position, letter in enumerate(word[1:], start=1):
            option = f"-{letter}"
            if option not in self.options:
                return None
            if self.options[option]:
                if self.apart and word[position + 1 :]:
                    return None
                options.append((option, word[position + 1 :] or None))
                break
            options.append((option, None))
        return options


def _usage(text: str) -> ReadingUse:
    head, _, operands = text.replace("LOG", _LOG).partition("|")
    options: dict[str, str] = {}
    optional, required = set[str](), set[str]()
    entries = head.split()
    words, apart = "words" in entries, "apart" in entries
    for entry in entries:
        name, equals, kind = entry.partition("=")
        if entry in ("words", "apart"):
            continue
        if entry.startswith("!"):
            required.update(entry[1:].split(","))
        elif "[=]" in entry:
            name, _, kind = entry.partition("[=]")
            optional.add(name)
            options[name] = kind or "text"
        elif equals:
            options[name] = kind or "text"
        elif words or entry.startswith("--"):
            options[name] = ""
        else:
            options.update({f"-{letter}": options.get(f"-{letter}", "") for letter in entry[1:]})
    kinds = tuple(kind for kind in operands.split() if kind != "none")
    return ReadingUse(options, frozenset(optional), frozenset(required), kinds, words, apart)


def _usages(table: str) -> Mapping[tuple[str, ...], tuple[ReadingUse, ...]]:
    """Return the usages of a table by the words that begin them."""
    usages: dict[tuple[str, ...], tuple[ReadingUse, ...]] = {}
    for line in filter(None, table.replace("\n    ", " ").splitlines()):
        name, _, same = line.partition(" = ")
        if same:
            usages[tuple(name.split())] = usages[tuple(same.split())]
            continue
        words = line.split()
        # The name ends where options, marks or operands begin.
        length = next(
            n for n, word in enumerate(words) if n and (word[0] in "-!|" or word in ("words", "apart", "LOG"))
        )
        key = tuple(words[:length])
        usages[key] = (*usages.get(key, ()), _usage(" ".join(words[length:])))
    return usages


def _plain_usages() -> Mapping[tuple[str, ...], tuple[ReadingUse, ...]]:
    usages = dict(_usages(_PLAIN_TABLE))
    for key, ways in _usages(_TABLE).items():
        versions = tuple(usage for usage in ways if "--version" in usage.required and not usage.operands)
        if versions and key[0] != "git":
            usages[key] = (*usages.get(key, ()), *versions)
    return usages


USAGES: Final = _usages(_TABLE)
"""Ways to use programs so that they only read, by program and subcommand: `("git", "log")`."""

PLAIN_USAGES: Final = _plain_usages()
"""Those of them that are enough where nothing keeps the program from doing more."""

IDLE_USAGES: Final = _usages(_IDLE_TABLE)
"""Those that read nothing but their input, so that they may stand beside what the user allows."""

PROGRAMS: Final = frozenset(key[0] for key in USAGES)
"""The programs of the table."""

BUILTINS: Final = frozenset(
    {":", "true", "false", "echo", "printf", "pwd", "exit", "set", "test", "[", "type", "command"}
)
"""Commands of the shell itself, which no file of the same name replaces."""
