#!/usr/bin/env bash
# The client library as a stranger meets it:
#
# - holdfast.h alone compiles as C89 and, where there is a C++ compiler, as C++;
# - both libraries show only names that begin with hf_, and every function of the header;
# - the C examples of docs/client.md compile and link with either.
#
# usage: tests/library.sh BUILD CC
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$1 cc=$2
: "${CFLAGS_EXTRA:=}" # what the libraries were built with, for sanitizers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
refuse() { printf 'library: %s\n' "$*" >&2; bad=1; }

mkdir "$work/include"
cp "$root/proto/holdfast.h" "$work/include/"
echo '#include <holdfast.h>' >"$work/header.c"
"$cc" -std=c89 -pedantic -Wall -Wextra -Werror -I "$work/include" -fsyntax-only "$work/header.c" ||
    refuse "holdfast.h is not C89"
if command -v c++ >/dev/null; then
    c++ -x c++ -pedantic -Wall -Wextra -Werror -I "$work/include" -fsyntax-only "$work/header.c" ||
        refuse "holdfast.h is not C++"
fi

grep -oE '\bhf_[a-z_]+\(' "$root/proto/holdfast.h" | tr -d '(' | sort -u >"$work/promised"
[ -s "$work/promised" ] || refuse "holdfast.h declares nothing"
nm -g --defined-only "$build/libholdfast.a" | sed -n 's/^[0-9a-f]* [A-TV-Z] //p' | sort -u >"$work/static"
nm -D --defined-only "$build/libholdfast.so" | sed -n 's/^[0-9a-f]* [A-TV-Z] //p' | sort -u >"$work/shared"
for kind in static shared; do
    names=$(grep -vE '^hf_|^__(a|ub|odr_a)san' "$work/$kind" || true)
    [ -z "$names" ] || refuse "the $kind library shows" $names
    names=$(comm -23 "$work/promised" "$work/$kind")
    [ -z "$names" ] || refuse "the $kind library lacks" $names
done

libs=$(pkg-config --libs msgpack-c libssl libcrypto 2>/dev/null || pkg-config --libs msgpack libssl libcrypto)
awk -v out="$work/example" '/^```c$/ {n++; on = 1; next} /^```$/ {on = 0} on {print > (out n ".c")}' \
    "$root/docs/client.md"
count=0
for example in "$work"/example*.c; do
    [ -e "$example" ] || continue
    count=$((count + 1))
    "$cc" -std=c11 -Wall -Wextra -Werror $CFLAGS_EXTRA -I "$work/include" "$example" "$build/libholdfast.a" \
        $libs -lpthread -o "$work/program" || refuse "example $count of docs/client.md with the static library"
    "$cc" -std=c11 -Wall -Wextra -Werror $CFLAGS_EXTRA -I "$work/include" "$example" -L "$build" -lholdfast \
        -o "$work/program" || refuse "example $count of docs/client.md with the shared library"
done
[ $count -gt 0 ] || refuse "docs/client.md has no example"
exit $bad
