#!/bin/bash
set -euo pipefail
cd /app/redis
git apply "$(dirname "$0")/memory-usage.patch"
python3 utils/generate-command-code.py
make -j2 MALLOC=libc
