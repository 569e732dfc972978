#!/bin/bash
set -euo pipefail
config="$(realpath "$(dirname "$0")")/kernel.config"
cd /app/linux
make KCONFIG_ALLCONFIG="$config" tinyconfig
scripts/config --set-str LOCALVERSION -pidsummary
make olddefconfig
make -j"$(nproc)" bzImage
