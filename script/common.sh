# shellcheck shell=bash
# Sourced by the scripts beside it: strict mode, the project's root as working folder, progress
# lines with the seconds since the script began.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
started=${MUSTER_SCRIPT_STARTED:-$(date +%s%N)}
export MUSTER_SCRIPT_STARTED=$started # a script called by a script goes on counting

elapsed() { # seconds with one decimal
  local tenths=$((($(date +%s%N) - started) / 100000000))
  printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}
say() { printf '[%6s s] %s\n' "$(elapsed)" "$*"; }
# fail CODE LINE…: the exit codes are those of the command line (docs/building.md).
fail() {
  local code=$1
  shift
  printf '%s\n' "$@" >&2
  exit "$code"
}
# need_writable FOLDER…: those below the project that a script makes or fills.
need_writable() {
  local name folder
  for name in "$@"; do
    folder=$PWD
    if [ -e "$name" ]; then folder=$PWD/$name; fi
    if [ -w "$folder" ] && [ -x "$folder" ]; then continue; fi
    fail 3 "$folder cannot be written by $(id -un); it belongs to $(stat -c %U "$folder")" \
      "either take it over:           sudo chown -R $(id -un) '$PWD'" \
      "or go on in a copy of yours:   cp -r '$PWD' ~/muster && ~/muster/script/${0##*/}"
  done
}
# quietly LOG COMMAND…: runs it with its output in LOG; shows the end of LOG when it fails.
quietly() {
  local log=$1 status=0
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 40 "$log" >&2
    fail "$status" "failed: $*" "the whole output is in $log"
  fi
}
