#!/bin/sh
# Make or mend the virtual environment that ./demo and ./test run in. Called by both, POSIX sh.
#
#   scripts/environment.sh core|dev
#
# Progress and errors go to stderr. Exit codes: 0 ready; 1 it says in one line what is missing, or shows
# the end of the log; 2 wrong use; 130 interrupted.
#
# RKNNTUI_VENV    the environment's folder (default: .venv beside README.md)
# RKNNTUI_PYTHON  the only Python to try (default: python3.13, 3.12, 3.11, python3, then uv)

set -eu
unset PYTHONHOME PYTHONPATH
export PYTHONNOUSERSITE=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_NO_INPUT=1
export PIP_DISABLE_PIP_VERSION_CHECK=1

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
venv=${RKNNTUI_VENV:-$here/.venv}
level=${1:-}
case $level in
core | dev) ;;
*)
    echo "usage: $0 core|dev" >&2
    exit 2
    ;;
esac

say() { printf '%s\n' "rknntui: $*" >&2; }

die() {
    say "$*"
    exit 1
}

# ------------------------------------------------------------------ is it there already?

# What the environment was made from. It holds absolute paths, so it belongs to this folder.
key_of() {
    {
        cat "$here/pyproject.toml" "$here/emulator/pyproject.toml" "$here/.ci/$1.lock" "$here/scripts/environment.sh"
        printf '%s' "$here"
    } | cksum
}

works() {
    [ -x "$venv/bin/python" ] && "$venv/bin/python" -c '
import sys
assert (3, 11) <= sys.version_info[:2] <= (3, 13) and sys.prefix != sys.base_prefix
' >/dev/null 2>&1
}

# `pip install '.[torch]'`, without -e, puts a copy in the place of the link to this clone. The copy
# stays as it is when the clone changes. pip notes which of the two it made.
linked() {
    for program in rknntui rknntui_emulator; do
        cat "$venv"/lib/python3.*/site-packages/$program-*.dist-info/direct_url.json 2>/dev/null |
            grep -q '"editable": *true' || return 1
    done
}

complete() {
    [ ! -e "$venv/.rknntui-unfinished" ] && [ -x "$venv/bin/rknntui" ] && works || return 1
    [ "$(cat "$venv/.rknntui-$level" 2>/dev/null)" = "$(key_of "$level")" ]
}

ready() { complete && linked; }

ready && exit 0

mkdir -p "$venv" 2>/dev/null || die "cannot write $venv: make the folder writable or set RKNNTUI_VENV."
: >"$venv/.rknntui-writable" 2>/dev/null || die "cannot write in $venv: make it writable or set RKNNTUI_VENV."
rm -f "$venv/.rknntui-writable"

# One at a time, where flock exists; whoever waited finds the work done.
if command -v flock >/dev/null 2>&1; then
    exec 9>"$venv.lock"
    flock -n 9 || {
        say "waiting for another set-up of $venv"
        flock 9
    }
    ready && exit 0
fi

# ------------------------------------------------------------------------ what is missing?

as_root() { [ "$(id -u)" = 0 ] && printf '%s' "$*" || printf '%s' "sudo $*"; }

uv_line="curl -LsSf https://astral.sh/uv/install.sh | sh"

# The one line: what to install on this distribution. $1: a Python that fits but cannot make
# environments, as 3.11, or nothing.
advice() {
    ID='' ID_LIKE='' VERSION_CODENAME='' UBUNTU_CODENAME='' command=''
    release=${RKNNTUI_OS_RELEASE:-/etc/os-release}
    # shellcheck disable=SC1090
    [ -r "$release" ] && . "$release"
    case " $ID $ID_LIKE " in
    *" alpine "*)
        echo "Alpine's C library (musl) cannot run ONNX Runtime: use a distribution with glibc 2.28 or later."
        return
        ;;
    *" debian "* | *" ubuntu "*)
        version=${1:-}
        [ -n "$version" ] || case ${UBUNTU_CODENAME:-$VERSION_CODENAME} in
        bookworm | jammy) version=3.11 ;;
        noble) version=3.12 ;;
        trixie | plucky | questing) version=3.13 ;;
        esac
        [ -n "$version" ] && command="apt-get install python$version-venv"
        ;;
    *" fedora "* | *" rhel "* | *" centos "*) command="dnf install python${1:-3.12}" ;;
    *" opensuse-tumbleweed "*) command="zypper install python313" ;;
    *" suse "* | *" opensuse "* | *" sles "*) command="zypper install python311" ;;
    *" arch "*) command="pacman -S uv" ;;
    esac
    if [ -n "$command" ]; then
        echo "install it with: $(as_root "$command")"
    else
        echo "install uv, which brings its own: $uv_line"
    fi
}

find_uv() {
    for uv in uv "${HOME:-}/.local/bin/uv" "${HOME:-}/.cargo/bin/uv"; do
        if "$uv" --version >/dev/null 2>&1; then
            return 0
        fi
    done
    return 1
}

check_machine() {
    case $(uname -s)-$(uname -m) in
    Linux-x86_64 | Linux-aarch64) ;;
    *) die "needs Linux on x86-64 or arm64 (this is $(uname -s) on $(uname -m))." ;;
    esac
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || return 0
    case $libc in
    "glibc 2."*)
        [ "${libc#glibc 2.}" -ge 28 ] 2>/dev/null ||
            die "needs glibc 2.28 or later (this is $libc): use a newer distribution."
        ;;
    esac
}

# --------------------------------------------------------------------- make the environment

# Only what this script made is thrown away; somebody's own environment is set aside.
clear_venv() {
    if [ -e "$venv/.rknntui-unfinished" ] || [ -e "$venv/.rknntui-core" ] ||
        [ -e "$venv/.rknntui-dev" ] || [ -z "$(ls -A "$venv")" ]; then
        rm -rf "$venv"
    else
        aside="$venv.old-$(date +%Y%m%d-%H%M%S)"
        say "$venv does not work; it is kept as $aside"
        mv "$venv" "$aside"
    fi
    mkdir "$venv"
    : >"$venv/.rknntui-unfinished"
}

has_pip() { "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

# Prints the version of a Python from 3.11 to 3.13.
fitting() {
    "$1" -c '
import sys
assert (3, 11) <= sys.version_info[:2] <= (3, 13)
print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

make_venv() {
    check_machine
    crippled=''
    set -- python3.13 python3.12 python3.11 python3
    [ -z "${RKNNTUI_PYTHON:-}" ] || set -- "$RKNNTUI_PYTHON"
    for python; do
        version=$(fitting "$python") || continue
        say "making $venv with $python"
        clear_venv
        "$python" -m venv "$venv" >/dev/null 2>&1 && works && has_pip && return 0
        say "$python cannot make an environment (no ensurepip)"
        crippled=${crippled:-$version}
    done
    if [ -z "${RKNNTUI_PYTHON:-}" ] && find_uv; then
        say "making $venv with uv"
        clear_venv
        "$uv" venv --quiet --allow-existing --seed --python '>=3.11,<3.14' "$venv" >&2 &&
            works && has_pip && return 0
        say "uv could not make it"
    fi
    [ ! -e "$venv/.rknntui-unfinished" ] || rm -rf "$venv"
    rmdir "$venv" 2>/dev/null || :
    if [ -n "$crippled" ]; then
        die "Python $crippled cannot make environments here; $(advice "$crippled")"
    fi
    if [ -n "${RKNNTUI_PYTHON:-}" ]; then
        command -v "$RKNNTUI_PYTHON" >/dev/null 2>&1 || die "RKNNTUI_PYTHON names $RKNNTUI_PYTHON, which" \
            "does not exist: name a Python from 3.11 to 3.13, or unset it."
        die "RKNNTUI_PYTHON names $RKNNTUI_PYTHON, which is no Python from 3.11 to 3.13: name another, or unset it."
    fi
    die "there is no Python 3.11, 3.12 or 3.13; $(advice)"
}

# ------------------------------------------------------------------------------- install

pid=''
interrupted() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || :
    say "interrupted; the next start mends it"
    exit 130
}
trap interrupted INT TERM HUP

# install ARGUMENTS...: run pip install with its output in a log, say how far it is, show the log's end if
# it fails.
install() {
    log="$venv/install.log"
    "$venv/bin/python" -m pip install "$@" >"$log" 2>&1 9>&- &
    pid=$!
    seconds=0
    while kill -0 "$pid" 2>/dev/null; do
        if [ -t 2 ]; then
            found=$(grep -c '^Collecting' "$log") || :
            what="$found of $total packages, "
            [ "$found" != 0 ] || what=''
            printf '\rrknntui: %s%s s ' "$what" "$seconds" >&2
        fi
        sleep 1
        seconds=$((seconds + 1))
    done
    [ ! -t 2 ] || printf '\r                                        \r' >&2
    if wait "$pid"; then
        pid=''
        return 0
    fi
    tail -n 15 "$log" >&2
    die "pip could not install; the end of $log is above. Is the package index reachable?"
}

# The program, and the emulated board that is a package of its own.
install_clone() { install --no-deps -e "$here" -e "$here/emulator"; }

# A home where they do not exist gets no caches of pip and uv, and no settings of rustup (pip asks
# rustc for its version to tell the index).
caches=${XDG_CACHE_HOME:-${HOME:-}/.cache}
[ -d "$caches/pip" ] || export PIP_NO_CACHE_DIR=1
[ -d "$caches/uv" ] || export UV_NO_CACHE=1
[ -d "${HOME:-}/.rustup" ] || export RUSTUP_HOME="$venv/.rustup"

# A half-made or half-installed environment is made again: pip believes what it finds there.
if [ -e "$venv/.rknntui-unfinished" ] || ! works || ! has_pip; then
    make_venv
fi

# Its packages are right, and only the program is a copy: they stay, with those of the extras.
if complete; then
    say "$venv holds a copy of this program, made by pip install without -e; linking the clone again"
    install_clone
    exit 0
fi

: >"$venv/.rknntui-unfinished"
rm -f "$venv/.rknntui-core" "$venv/.rknntui-dev"

total=$(grep -c '==' "$here/.ci/$level.lock") || :
started=$(date +%s)
size=375
[ "$level" = core ] || size=988
say "installing about $total packages, $size MB in all"
install --require-hashes -r "$here/.ci/$level.lock"
install_clone

# What tests need holds all that the core needs, in the same versions.
key_of core >"$venv/.rknntui-core"
[ "$level" = core ] || key_of dev >"$venv/.rknntui-dev"
rm -f "$venv/.rknntui-unfinished"
say "ready after $(($(date +%s) - started)) s"
