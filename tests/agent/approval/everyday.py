"""What people and agents type every day in a project, by whether it has to be asked about.

The lines are typed in the project of `test_everyday.py`: a repository with sources, tests, documents and a link out.
"""

from __future__ import annotations

from typing import Final

READING: Final = r"""
ls
ls -la
ls *.py
ls src tests
ls -1 src | wc -l
pwd
pwd && ls
echo $?
echo done
echo "$HOME"
cat README.md
cat src/app.py | head -50
cat src/*.py
head -n 20 README.md
head -20 README.md
tail -n +5 README.md
tail -20 app.log
wc -l src/*.py
wc -l README.md src/app.py
test -f README.md
test -f README.md && echo yes || echo no
[ -d src ] && ls src
if [ -f setup.py ]; then cat setup.py; else echo none; fi
date
date +%Y-%m-%d
uname -a
whoami
which python3
command -v git
type ls
stat README.md
file README.md
du -sh src
du -h --max-depth=1 . | sort -h
df -h
tree -L 2
find . -name '*.py'
find . -type f -name "*.md" -not -path "./.git/*"
find src -name "*.py" | wc -l
find . -maxdepth 2 -type d
grep -rn "TODO" src
grep -n "def " src/app.py
grep -rl 'import os' --include='*.py' .
grep -c main src/app.py
grep -E "foo|bar" README.md | head
grep -rn "main" src tests 2>/dev/null | head -20
rg main
rg -n "def main" src
rg --files | head
rg -l main -g '*.py'
sed -n '1,40p' src/app.py
sed -n 10p README.md
sed 's/foo/bar/g' README.md
awk '{print $1}' README.md
awk -F: '{print $2}' app.log
awk 'NR>=2 && NR<=5' README.md
cut -d: -f1 app.log
sort app.log | uniq -c | sort -rn
sort -u names.txt
tr a-z A-Z < README.md
diff README.md docs/guide.md
diff -u README.md docs/guide.md
find . -name '*.py' -exec grep -l main {} +
md5sum README.md
sha256sum README.md
basename src/app.py .py
dirname src/app.py
realpath src/app.py
nl -ba src/app.py | sed -n '1,20p'
jq . package.json
jq -r '.scripts | keys[]' package.json
cat package.json | jq '.version'
python --version
python3 --version
node --version
node -v
git --version
npm --version
for f in src/*.py; do wc -l "$f"; done
cd src && ls
cd src && grep -n main app.py
printf '%s\n' hello
grep -rn main . --include=*.py
ps aux | grep python
git ls-files | xargs wc -l
git status
git status --short
git status -sb
git diff
git diff --stat
git diff HEAD~1 -- src/app.py
git diff --cached
git log --oneline -10
git --no-pager log -5
git -C src status
git log -p -1 src/app.py
git show HEAD
git show HEAD:src/app.py
git branch
git branch -a
git branch --show-current
git remote -v
git rev-parse HEAD
git rev-parse --show-toplevel
git ls-files
git ls-files | wc -l
git blame src/app.py
git grep -n main
git config --list
git config user.name
git stash list
git tag
git describe --tags --always
git log --since="2 weeks ago" --author=me --format='%h %s'
""".strip().splitlines()
"""Lines that only read, whether or not they may be asked about."""

CHANGING: Final = r"""
git add -A
git commit -m "Say what changed"
git push
git pull
git checkout -b feature
git stash
npm install
npm test
pytest -q
python -m pytest tests
python app.py
make
pip install -e .
mkdir -p build
rm -rf build
mv old.py new.py
cp README.md docs/
touch new.py
sed -i 's/foo/bar/' README.md
echo hello > out.txt
curl -s https://example.com
""".strip().splitlines()
"""Lines that change something, run the project or use the network: they are asked about."""
