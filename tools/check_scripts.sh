#!/bin/bash
# Every shell script passes shellcheck.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE --null '^#!/bin/bash|^# shellcheck shell=bash' script tools .ci tests bench --include='*' |
  xargs -0 shellcheck -x -P SCRIPTDIR
