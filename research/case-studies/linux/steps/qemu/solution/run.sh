#!/bin/bash
# Boots a kernel with a program that checks pid_summary and /proc/<pid>/pid_summary.
set -euo pipefail
here="$(realpath "$(dirname "$0")")"
kernel="${KERNEL:-/app/linux/arch/x86/boot/bzImage}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir "$work/root"
gcc -static -Wall -o "$work/root/init" "$here/validate.c"
(cd "$work/root" && echo init | cpio --quiet -o -H newc | gzip >"$work/initramfs.gz")
timeout --kill-after 5 240 qemu-system-x86_64 -accel kvm -accel tcg -m 256 -kernel "$kernel" -initrd "$work/initramfs.gz" \
    -append "console=ttyS0 panic=-1" -display none -monitor none -serial stdio -no-reboot </dev/null >"$work/log" || true
tr -d '\r' <"$work/log" | grep -a -E '^(ok|FAILED|all) ' || echo "FAILED the kernel did not come up: $kernel"
tr -d '\r' <"$work/log" | grep -a -q '^all checks hold$'
