#!/bin/sh
# Prints the path of a Python 3.11, 3.12 or 3.13 that can make a virtual environment, or says what to install and fails.
# It is POSIX sh because a fresh machine may have no Python at all; everything after it is Python.
# PYTHON=/path/to/python chooses one; a wrong choice is reported, not silently replaced.
set -u

probe='import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13): sys.exit(10)
try:
    import venv, ensurepip
except ImportError:
    sys.exit(11)
print(sys.executable)'

# `ensurepip` is what Debian and Ubuntu split off into pythonX.Y-venv.
how_to_install() {
  if command -v apt-get >/dev/null 2>&1; then
    echo "  On this machine:  $1" >&2
  else
    echo "  On Debian or Ubuntu:  $1" >&2
  fi
}
apt="sudo apt-get"
[ "$(id -u)" = 0 ] && apt="apt-get"
without_venv=
too_old=

try() {
  found=$("$1" -c "$probe" 2>/dev/null)
  case $? in
    0) printf '%s\n' "$found"; exit 0 ;;
    10) too_old="$too_old $1 ($("$1" -V 2>&1))" ;;
    11) without_venv=${without_venv:-$1} ;;
  esac
}

if [ -n "${PYTHON:-}" ]; then
  if ! command -v "$PYTHON" >/dev/null 2>&1; then
    echo "PYTHON=$PYTHON was given, but there is no such program." >&2
    exit 1
  fi
  try "$PYTHON"
else
  for name in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    command -v "$name" >/dev/null 2>&1 && try "$name"
  done
fi

if [ -n "$without_venv" ]; then
  version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  echo "Python $version is here ($without_venv), but its module for virtual environments is not." >&2
  how_to_install "$apt update && $apt install -y python$version-venv"
elif [ -n "$too_old" ]; then
  echo "pvecloud needs Python 3.11, 3.12 or 3.13; found only:$too_old." >&2
  how_to_install "$apt update && $apt install -y python3 python3-venv  (Debian 12, Ubuntu 23.10 and later)"
  echo "  With one in another place:  make PYTHON=/path/to/python3.12 ..." >&2
elif [ -n "${PYTHON:-}" ]; then
  echo "PYTHON=$PYTHON was given, but it does not run as a Python." >&2
else
  echo "pvecloud needs Python 3.11, 3.12 or 3.13; no Python was found." >&2
  how_to_install "$apt update && $apt install -y python3 python3-venv"
fi
exit 1
