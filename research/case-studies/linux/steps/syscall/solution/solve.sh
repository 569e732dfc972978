#!/bin/bash
set -euo pipefail
patch -d /app/linux -p1 <"$(dirname "$0")/pid-summary.patch"
