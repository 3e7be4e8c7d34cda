#!/bin/bash
# Every C++ file is as clang-format leaves it. To mend: tools/check_format.sh --fix
set -euo pipefail
cd "$(dirname "$0")/.."
options=(--dry-run -Werror)
if [ "${1:-}" = --fix ]; then options=(-i); fi
find muster tests bench examples cmake -name '*.h' -o -name '*.cc' | sort |
  xargs -P "$(nproc)" -n 40 clang-format --style=file "${options[@]}"
