#!/usr/bin/env bash
# Build a bare Debian (minbase, python3, python3-venv, ca-certificates, git) and run the README's two commands in it as
# they stand there, as an ordinary user who has just cloned. Usage, as root: tests/fresh.sh [--first] [SUITE]
#   --first   the first command alone
#   SUITE     bookworm (Debian 12) unless named
# Exit codes: 0 they hold; 1 one of them does not; 3 the machine could not be built here, with a line that says why.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PACKAGES=python3,python3-venv,ca-certificates,git
USER_ID=1000

skip() {
    echo "fresh.sh: skipped: $*" >&2
    exit 3
}

# The lines of the README's first block of commands.
commands() {
    awk '/^```sh$/ {inside = 1; next} /^```$/ {if (inside) exit} inside' "$here/README.md"
}

# What this machine's pip is told, as the environment of another's: an index, a proxy, certificates.
pip_settings() {
    python3 -m pip --disable-pip-version-check config list 2>/dev/null | while IFS='=' read -r name value; do
        name=${name##*.}
        value=${value#\'}
        value=${value%\'}
        echo "PIP_$(echo "$name" | tr 'a-z-' 'A-Z_')=${value//\\n/ }"
    done
    env | grep -E '^(https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|SSL_CERT_FILE|REQUESTS_CA_BUNDLE)=' || true
}

# The Debian mirror of this machine; nothing where it has none, for debootstrap's own.
mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        grep -oE '^(URIs:|deb )[^#]*https?://[^ ]+/debian/?( |$)' | grep -oE 'https?://[^ ]+' | head -n 1 || true
}

build() {
    if ! command -v debootstrap >/dev/null; then
        timeout 200 sh -c 'apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q debootstrap' \
            >"$work/log" 2>&1 || skip "debootstrap cannot be installed: $(tail -n 1 "$work/log")"
    fi
    # shellcheck disable=SC2046  (no mirror is no argument)
    timeout 400 debootstrap --variant=minbase --include="$PACKAGES" "$suite" "$root" $(mirror) >"$work/log" 2>&1 ||
        skip "debootstrap cannot fetch $suite: $(tail -n 1 "$work/log")"
    furnish >"$work/log" 2>&1 || skip "the machine cannot be furnished: $(tail -n 1 "$work/log")"
}

# Its way to the network, its user, and what that one has cloned.
furnish() {
    cp /etc/resolv.conf /etc/hosts "$root/etc/" || return
    if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
        cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
        chroot "$root" update-ca-certificates || return
    fi
    chroot "$root" useradd --create-home --uid "$USER_ID" --shell /bin/bash newcomer || return
    mkdir "$root/home/newcomer/tuner" || return
    files | tar -C "$here" --null --files-from=- --create | tar -C "$root/home/newcomer/tuner" --extract || return
    chroot "$root" chown -R newcomer:newcomer /home/newcomer
}

# What a clone of the working tree would hold, with its changes.
files() {
    git -c safe.directory='*' -C "$here" ls-files -z --cached --others --exclude-standard |
        while IFS= read -r -d '' name; do
            if [ -e "$here/$name" ]; then printf '%s\0' "$name"; fi
        done
}

# What a machine that has started up has.
mounted() {
    mount -t proc proc "$root/proc" && mount -t tmpfs -o mode=755 tmpfs "$root/dev" && mkdir "$root/dev/shm" || return
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    for name in null zero full random urandom tty; do
        touch "$root/dev/$name"
        mount --bind "/dev/$name" "$root/dev/$name"
    done
    ln -s /proc/self/fd "$root/dev/fd"
    for name in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${name#*:}" "$root/dev/${name%:*}"; done
    # Files and folders that pip's settings name, in the same place.
    pip_settings | grep -oE '(file://)?(/[A-Za-z0-9._-]+)+' | sort -u | while read -r path; do
        case $path in file://*) path=$(dirname "${path#file://}") ;; esac
        [ -e "$path" ] && [ ! -e "$root$path" ] || continue
        if [ -d "$path" ]; then
            mkdir -p "$root$path"
            mount --bind "$path" "$root$path"
        else
            install -D -m 644 "$path" "$root$path"
        fi
    done
}

as_newcomer() {
    chroot --userspec="$USER_ID:$USER_ID" "$root" /usr/bin/env -i HOME=/home/newcomer USER=newcomer LANG=C.UTF-8 \
        PATH=/usr/local/bin:/usr/bin:/bin "${settings[@]}" /bin/bash -c "$1" </dev/null
}

# As PID 1 of a namespace of its own, so that no mount and no process outlives it.
inside() {
    build
    mounted >"$work/log" 2>&1 || skip "nothing can be mounted here: $(tail -n 1 "$work/log")"
    mapfile -t settings < <(pip_settings)
    mapfile -t lines < <(commands)
    [ "${#lines[@]}" = 2 ] || { echo "fresh.sh: README's first block has ${#lines[@]} commands, not 2"; exit 1; }
    as_newcomer "python3 -m venv /tmp/probe && timeout 200 /tmp/probe/bin/pip download --no-deps --dest /tmp click" \
        >"$work/log" 2>&1 || skip "pip reaches no index there: $(tail -n 1 "$work/log")"
    for line in "${lines[@]:0:${first:-2}}"; do
        echo "fresh.sh: $suite: $line"
        as_newcomer "cd ~/tuner && $line" || {
            echo "fresh.sh: $suite: failed with exit code $?: $line"
            exit 1
        }
    done
    echo "fresh.sh: $suite: holds"
}

first=
suite=bookworm
for word in "$@"; do
    case $word in
        --first) first=1 ;;
        --inside) inside_of=1 ;;
        -*) echo "fresh.sh: $word is unknown; there are: --first, SUITE" >&2; exit 2 ;;
        *) suite=$word ;;
    esac
done
if [ -n "${inside_of:-}" ]; then
    inside
    exit
fi
[ "$(id -u)" = 0 ] || skip "only root can build a machine"
work=$(mktemp -d "${TMPDIR:-/tmp}/fresh-XXXXXX")
root=$work/root
mkdir -m 755 "$root"
trap 'rm -rf --one-file-system "$work"' EXIT
trap '[ -z "$child" ] || kill -KILL "$child" 2>/dev/null; wait; exit 130' INT TERM HUP
export work root
child=
unshare --mount --pid --fork true 2>"$work/log" || skip "no machine can be kept apart here: $(cat "$work/log")"
# In the background, so that a signal is answered at once; a background process of bash ignores SIGINT, a user's does not.
unshare --mount --pid --fork --kill-child --mount-proc env --default-signal=INT,QUIT \
    bash "${BASH_SOURCE[0]}" --inside ${first:+--first} "$suite" &
child=$!
code=0
wait "$child" || code=$?
exit "$code"
