#!/usr/bin/env bash
# The two tables of what is tested name tests that exist:
#
# - docs/semantics.md, "Every rule and the test that proves it";
# - docs/testing.md, "Cases from elsewhere": there a test carries the id of its case in its name (l05_...), and a
#   case that does not apply says why after `none:`.
#
# A test is `program:function`: a function of tests/*/program.c that cmocka calls, or main. Ids are unique. A row
# without a test has `-` in its place. For a rule that is an error; for a case it is counted and printed, and an
# error with PROVEN=yes.
#
# usage: tests/rules.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

PROVEN=${PROVEN:-no}
bad=0
refuse() { printf 'rules: %s\n' "$*" >&2; bad=1; }

declare -A tests
while IFS=: read -r file text; do
    [[ $text =~ ([a-z0-9_]+)\( ]] && tests["$(basename "$file" .c):${BASH_REMATCH[1]}"]=1
done < <(grep -HoE '^(static )?(void [a-z0-9_]+\(void \*\*|int main\()' tests/*/*.c)

# table FILE HEADING KIND: check the rows below the heading, up to the next one of its level.
table()
{
    local file=$1 kind=$3 line on=no id rest test count=0
    local -A seen=()
    local missing=()
    while IFS= read -r line; do
        case $line in
        "$2") on=yes; continue ;;
        '## '*) on=no ;;
        esac
        [[ $on = yes && $line =~ ^\|\ ([A-Z]-[0-9]+|[0-9.]+)\ \|.*\|\ ([^|]*)\ \|$ ]] || continue
        id=${BASH_REMATCH[1]} rest=${BASH_REMATCH[2]}
        [ -z "${seen[$id]:-}" ] || refuse "$file has $kind $id twice"
        seen[$id]=1
        count=$((count + 1))
        case $rest in
        -) missing+=("$id"); continue ;;
        'none: '*) [ "$kind" = case ] || refuse "$kind $id has no test"; continue ;;
        esac
        while [[ $rest =~ ^\`([a-z0-9_]+:([a-z0-9_]+))\`(,\ )?(.*)$ ]]; do
            test=${BASH_REMATCH[1]} rest=${BASH_REMATCH[4]}
            [ -n "${tests[$test]:-}" ] || refuse "$kind $id names $test, which is no test"
            [ "$kind" = rule ] || [[ _${BASH_REMATCH[2]}_ = *_"$(tr -d - <<<"${id,,}")"_* ]] ||
                refuse "$test does not carry the id of $kind $id in its name"
        done
        [ -z "$rest" ] || refuse "$kind $id: '$rest' is no list of \`program:function\`"
    done <"$file"
    [ $count -gt 0 ] || refuse "$file has no ${kind}s"
    printf '%ss: %d of %d without a test: %s\n' "$kind" ${#missing[@]} $count "${missing[*]:-none}"
    [ $kind = case ] && [ "$PROVEN" = no ] || [ ${#missing[@]} = 0 ] || refuse "each $kind needs a test"
}

table docs/semantics.md '## Every rule and the test that proves it' rule
table docs/testing.md '## Cases from elsewhere' case
exit $bad
