#!/bin/sh
# run_oracle.sh PYTHON SCRIPT ARGUMENT...: runs the script with Python's PyTorch, or says how to get it.
if [ ! -x "$1" ]; then
  echo "no PyTorch at $1: run script/dependencies --with-pytorch" >&2
  exit 1
fi
exec "$@"
