#!/bin/bash
set -euo pipefail
cd /app/redis
git apply "$(dirname "$0")/novalues.patch"
python3 utils/generate-command-code.py
make -j2 MALLOC=libc
