#!/usr/bin/env bash
# What the programs write of themselves: man pages and the completion of shells.
#
# - every command and flag of `holdfast --help` stands in holdfast.1, every option of holdfastd in holdfastd.1;
# - roff has nothing to warn of, where groff is;
# - bash completes commands, their second words, flags and queues, and nothing behind a flag that takes a value;
# - zsh and fish can read their scripts, and fish completes, where they are.
#
# usage: tests/written.sh BUILD
set -euo pipefail
build=$(cd "$1" && pwd)
bad=0
refuse() { printf 'written: %s\n' "$*" >&2; bad=1; }

# ---- man ----
plain() { sed 's/\\-/-/g; s/\\f[BIR]//g; s/\\&//g' "$1"; }
plain "$build/man/holdfast.1" >"${TMPDIR:=/tmp}/written.$$"
trap 'rm -rf "$TMPDIR/written.$$" "$TMPDIR/written-bin.$$"' EXIT
commands=$("$build/holdfast" help | sed -n 's/^  \([a-z][a-z ]*[a-z]\) .*/\1/p' | sed 's/  .*//')
[ -n "$commands" ] || refuse "holdfast help lists no command"
while IFS= read -r command; do
    grep -qF ".SS holdfast $command" "$TMPDIR/written.$$" || refuse "holdfast.1 does not have $command"
    for flag in $("$build/holdfast" $command --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
        grep -qxE -- "$flag( .*)?" "$TMPDIR/written.$$" || refuse "holdfast.1 does not have $flag of $command"
    done
done <<<"$commands"
plain "$build/man/holdfastd.1" >"$TMPDIR/written.$$"
for option in $("$build/holdfastd" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
    grep -qE -- "^$option([ ,]|\$)" "$TMPDIR/written.$$" || refuse "holdfastd.1 does not have $option"
done
if command -v groff >/dev/null; then
    for page in holdfast holdfastd; do
        warnings=$(groff -man -ww -Tutf8 -z "$build/man/$page.1" 2>&1)
        [ -z "$warnings" ] || refuse "$page.1: $warnings"
    done
fi
"$build/holdfast" --version | grep -qxE 'holdfast [0-9]+\.[0-9]+\.[0-9]+' || refuse "holdfast --version"
"$build/holdfastd" --version | grep -qxE 'holdfastd [0-9]+\.[0-9]+\.[0-9]+' || refuse "holdfastd --version"

# ---- bash, with a holdfast that knows two queues ----
mkdir "$TMPDIR/written-bin.$$"
printf '#!/bin/sh\n[ "$*" = "--timeout 1s queue list" ] && printf "orders\\nother\\n"\n' >"$TMPDIR/written-bin.$$/holdfast"
chmod +x "$TMPDIR/written-bin.$$/holdfast"
completes() # LINE EXPECTED: the last word of the line is being typed
{
    local got
    got=$(PATH="$TMPDIR/written-bin.$$:$PATH" bash -c '
        source "$0"
        IFS=" " read -ra COMP_WORDS <<<"$1"
        case "$1" in *" ") COMP_WORDS+=("") ;; esac
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _holdfast
        printf "%s\n" "${COMPREPLY[@]}"' "$build/completion/holdfast" "$1" | sort | paste -sd' ')
    [ "$got" = "$2" ] || refuse "'$1' is completed to '$got', not to '$2'"
}
completes 'holdfast comp' completion
completes 'holdfast queue de' delete
completes 'holdfast queue delete --f' --force
completes 'holdfast queue delete o' 'orders other'
completes 'holdfast --cluster a:1 --json send or' orders
completes 'holdfast send orders bo' ''
completes 'holdfast send orders --prio' --priority
completes 'holdfast send --file ' ''
completes 'holdfast queue list --fo' ''
completes 'holdfast schedule cancel ot' other

# ---- others ----
if command -v zsh >/dev/null; then
    zsh -n "$build/completion/_holdfast" || refuse "zsh cannot read its script"
fi
if command -v fish >/dev/null; then
    got=$(PATH="$TMPDIR/written-bin.$$:$PATH" fish --no-config -c "source $build/completion/holdfast.fish
        complete -C 'holdfast queue de'; complete -C 'holdfast queue delete --fo'
        complete -C 'holdfast queue delete or'" | cut -f1 | paste -sd' ')
    [ "$got" = 'delete --force orders' ] || refuse "fish completes to '$got'"
fi
exit $bad
