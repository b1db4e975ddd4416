#!/usr/bin/env bash
# Refuse docs that no longer tell the truth, as far as a script can see it:
#
# - every relative link in a Markdown file leads to a file;
# - every status and every operation number of proto/ stands in docs/protocol.md;
# - every option that holdfastd knows has its page docs/options/<option>.md, and no page is left over
#   (needs a built holdfastd: pass its path);
# - every source folder has its README.md;
# - every rule and every case names its tests (tests/rules.sh).
#
# usage: tests/docs.sh [HOLDFASTD]
set -euo pipefail
cd "$(dirname "$0")/.."

daemon=${1:-}
bad=0
refuse() { printf 'docs: %s\n' "$*" >&2; bad=1; }

while IFS= read -r file; do
    folder=$(dirname "$file")
    while IFS= read -r target; do
        target=${target%%#*}
        case "$target" in ''|http://*|https://*|mailto:*) continue ;; esac
        [ -e "$folder/$target" ] || refuse "$file links to $target, which does not exist"
    done < <(grep -oE '\]\([^) ]+\)' "$file" | sed 's/^](\(.*\))$/\1/')
done < <(git ls-files -co --exclude-standard '*.md' | sort -u)

for folder in proto raftlog broker tests deploy; do
    [ -r "$folder/README.md" ] || refuse "$folder has no README.md"
done

if [ -r docs/protocol.md ]; then
    while IFS='|' read -r number name; do
        grep -Eq "(^|[^0-9])$number([^0-9].*)?[^A-Za-z]$name([^A-Za-z]|\$)" docs/protocol.md ||
            refuse "docs/protocol.md does not name status $number $name"
    done < <(sed -n 's/^ *X(HF_[A-Z_]*, *-\{0,1\}\([0-9]*\), *"\([A-Za-z]*\)".*/\1|\2/p' proto/status.h)
    while IFS='|' read -r name number; do
        grep -Eq "(^|[^0-9])$number([^0-9].*)?[^A-Z_]$name([^A-Z_]|\$)|[^A-Z_]$name[^A-Z_].*[^0-9]$number([^0-9]|\$)" \
            docs/protocol.md || refuse "docs/protocol.md does not name operation $number $name"
    done < <(sed -n 's/^ *X(\([A-Z_]*\), \([0-9]*\), \(true\|false\)).*/\1|\2/p' proto/op.h)
else
    refuse "there is no docs/protocol.md"
fi

for fault in $(sed -n 's/^ *X(\([a-z_]*\),.*/\1/p' proto/planted.h); do
    row=$(sed -n "s/^$fault: *//p" tests/mutants)
    [ -n "$row" ] || refuse "tests/mutants names no test for the planted fault $fault"
    grep -rq "PLANTED($fault)" raftlog broker || refuse "the fault $fault of proto/planted.h is planted nowhere"
    for test in $row; do
        grep -q "^| .$fault. |.*$test" docs/testing.md ||
            refuse "docs/testing.md does not say that $test finds the planted fault $fault"
    done
done

if [ -n "$daemon" ]; then
    options=$("$daemon" --help | sed -n 's/^ *--\([a-z][a-z-]*\).*/\1/p' |
        grep -vxE 'help|version|config|check-config|dev|restore|rescue|confirm|without-log|json' | sort -u)
    [ -n "$options" ] || refuse "$daemon --help lists no option"
    for option in $options; do
        [ -r "docs/options/$option.md" ] || refuse "option --$option has no page docs/options/$option.md"
    done
    for page in docs/options/*.md; do
        name=$(basename "$page" .md)
        [ "$name" = README ] || grep -qx "$name" <<<"$options" ||
            refuse "$page describes an option that holdfastd does not know"
    done
fi

tests/rules.sh || bad=1

exit $bad
