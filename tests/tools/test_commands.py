"""Shell commands are judged by what they do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane.tools import Activity, judge_command

EXPLORING = r"""
cat a.py
cd src && ls -la | head -20
sed -n '1,80p' a.py
nl -ba a.py | sed -n '3,9p'
rg -n "def main" src | head
grep -rn TODO . 2>/dev/null
find . -name '*.py' -not -path './x/*' | xargs wc -l
find . -name '*.ts' -exec grep -l foo {} \\;
git blame a.py
git branch -a
git branch
git remote -v
git stash list
git config --show-origin --get-all user.name
git worktree list --porcelain
git fetch origin && git rev-parse HEAD
gh pr view 12 --json title
gh api repos/a/b/pulls/1/comments --paginate | jq '.[]'
gh api graphql -f query='query { viewer { login } }'
curl -s https://example.com/page | head
curl -L -o /tmp/x.tar.gz https://example.com/x.tar.gz
wget -qO- https://example.com
docker ps
kubectl get pods
pip list
npm ls react
npm view react version
cargo tree
go list ./...
apt-cache policy gcc
dpkg -l
tar tzf x.tgz
unzip -l x.zip
sqlite3 db.sqlite "SELECT * FROM t"
python3 --version
cargo --help
which python3 || echo none
awk '{print $1}' data.txt
git diff > /tmp/d.patch; wc -l /tmp/d.patch
tmux capture-pane -p
systemctl status nginx
"""

REVIEWING = r"""
git status
git diff --stat
git -C /repo log --oneline -5
cd /repo && git show HEAD
git status --short && echo --- && git log -3
"""

RUNNING = r"""
pytest -x tests | tail -30
python -m pytest -q
uv run pytest
cd app && npm test 2>&1 | tail -5
npm run build
npx tsc --noEmit
make
make test
cargo test --workspace
go build ./...
go test ./... 2>&1 | tee /dev/null
mise run lint
bun test a.test.ts
bun run typecheck
./run.sh --fast
python3 script.py > out.log
timeout 30 python3 script.py
python3 -c "print(1)"
python3 - <<'EOF'\nimport a\nprint(a.b)\nEOF
node -e "console.log(1)"
bash script.sh
ruff check .
ruff format --check .
gcc -O2 a.c -o a && ./a
terraform plan
curl -X POST localhost:8000/x -d '{}'
FOO=1 BAR=2 ./a.out
docker exec -it web ls
"""

ACTING = r"""
rm -rf build
mkdir -p a/b && cp x a/b/
mv a b
touch x
echo hi > notes.txt
echo hi >> notes.txt
cat > a.py <<'EOF'\nprint(1)\nEOF
cat > /tmp/check.py <<'EOF'\nprint(1)\nEOF\npython3 /tmp/check.py
printf x | tee out.txt
sed -i 's/a/b/' a.py
sed -i '' 's/a/b/' a.py
sed -n -i.bak 's/a/b/p' a.py
perl -pi -e 's/a/b/' a.py
find . -name '*.pyc' -delete
find . -name '*.orig' -exec rm {} +
git ls-files | xargs rm
git add -A && git commit -m "x"
git commit -m "$(cat <<'EOF'\nIt's done\nEOF\n)"
git checkout -b topic
git stash
git branch -D old
git remote add up https://example.com
git push 2>&1
gh pr create --fill
gh api -X POST repos/a/b/issues -f title=x
gh api graphql -f query='mutation { x }'
pip install requests
uv pip install requests
uv add requests
npm install
npm ci
yarn add x
cargo add serde
go mod tidy
apt-get install -y gcc 2>&1 | tail -1
sudo apt-get update
brew install jq
docker build -t x .
make install
npm run lint:fix
eslint --fix src
ruff format .
black .
prettier --write .
wget https://example.com/x.zip
curl -O https://example.com/x.zip
tar xzf x.tgz
sqlite3 db "INSERT INTO t VALUES (1)"
python3 - <<'EOF'\nopen('a.txt', 'w').write('x')\nEOF
python3 -c "from pathlib import Path; Path('a').write_text('x')"
python3 -m venv .env
python3 -m pip install x
node -e "require('fs').writeFileSync('a', 'b')"
bash -lc 'cd x && rm y'
sh -c "echo x > y"
eval "rm y"
if [ -f x ]; then rm x; fi
for f in a b; do mv $f $f.bak; done
echo $(rm x)
kill -9 123
git diff > fix.patch
bd create "an issue"
systemctl restart nginx
"""

NEUTRAL = r"""
cd src
echo done
sleep 5
export A=1
source venv/bin/activate
A=1
true
"""


CASES = {
    Activity.EXPLORE: EXPLORING,
    Activity.REVIEW: REVIEWING,
    Activity.VERIFY: RUNNING,
    Activity.ACT: ACTING,
    Activity.NEUTRAL: NEUTRAL,
}


@pytest.mark.parametrize(
    ("activity", "line"),
    [(activity, line.replace("\\n", "\n")) for activity, text in CASES.items() for line in text.strip().splitlines()],
)
def test_what_a_command_does(activity: Activity, line: str) -> None:
    assert judge_command(line).activity is activity


@pytest.mark.parametrize(
    ("line", "reads", "writes"),
    [
        ("cat a.py b/c.py", ("a.py", "b/c.py"), ()),
        ("cd /repo/src && cat ./a.py ../b.py", ("/repo/src/a.py", "/repo/b.py"), ()),
        ("sed -n '1,9p' a.py | head", ("a.py",), ()),
        ("grep -n 'x' a.py src", ("a.py",), ()),
        ("sed -i 's/a/b/' a.py b.py", (), ("a.py", "b.py")),
        ("sed -i '' 's/a/b/' a.py", (), ("a.py",)),
        ("cp a.py b.py", ("a.py",), ("b.py",)),
        ("sort < in.txt > out.txt", ("in.txt",), ("out.txt",)),
        ("cat <<'EOF' > a.py\nx\nEOF", (), ("a.py",)),
        ("python3 -c \"open('/etc/a').read(); open('b.txt', 'w')\"", ("/etc/a",), ("b.txt",)),
        ("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a/b.py\n*** End Patch\nEOF", (), ("a/b.py",)),
        ("git apply <<'EOF'\n--- a/x.c\n+++ b/x.c\nEOF", (), ("x.c",)),
        ("pytest > /dev/null 2>&1", (), ()),
    ],
)
def test_files(line: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> None:
    judgement = judge_command(line)
    assert (judgement.reads, judgement.writes) == (reads, writes)


@given(st.text(alphabet="gitcasedrm -xo'\"$()<>|&;/.=\n", max_size=60))
def test_no_command_is_too_odd(line: str) -> None:
    assert judge_command(line) == judge_command(line)


@pytest.mark.parametrize(
    "line", ["find . -exec " * 3_000, "python -m " * 3_000, "bash -c 'eval " * 3_000, "sudo " * 3_000, "eval " * 3_000]
)
def test_no_command_is_too_deep(line: str) -> None:
    judge_command(line)


def test_nothing_is_neutral() -> None:
    assert judge_command("").activity is Activity.NEUTRAL
