#!/bin/bash
set -euo pipefail
git -C /app/excalidraw apply "$(realpath "$(dirname "$0")")/color-wheel.patch"
