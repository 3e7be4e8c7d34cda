#!/bin/bash
# Every shell script passes shellcheck, however its first line names the shell; so does what others
# source, which says so itself.
# usage: tools/check_scripts.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
folders=()
for folder in script tools .ci tests bench examples; do
  [[ ! -d $folder ]] || folders+=("$folder")
done
shell='(/usr)?/bin/(env +(-S +)?)?(ba|da)?sh'
status=0
found=$(LC_ALL=C grep -rlzP "(?m)\A#! *$shell( |$)|^# shellcheck shell=" "${folders[@]}") || status=$?
((status == 0)) || { echo "scripts: none found below $PWD: ${folders[*]}" >&2; exit 1; }
mapfile -t scripts <<<"$found"
shellcheck -x -P SCRIPTDIR "${scripts[@]}"
echo "scripts: good (${#scripts[@]} files)"
