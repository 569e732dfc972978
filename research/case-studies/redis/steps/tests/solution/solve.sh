#!/bin/bash
set -euo pipefail
cd /app/redis
cp "$(dirname "$0")/hash-novalues.tcl" tests/unit/type/hash-novalues.tcl
sed -i 's|^    unit/type/hash$|&\n    unit/type/hash-novalues|' tests/test_helper.tcl
./runtest --single unit/type/hash-novalues
