#!/bin/bash
set -euo pipefail
mkdir -p /app/validate
cd "$(dirname "$0")"
cp run.sh validate.c /app/validate/
chmod +x /app/validate/run.sh
/app/validate/run.sh
