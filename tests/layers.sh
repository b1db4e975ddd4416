#!/usr/bin/env bash
# Refuse an include that points upward, or a library where its one file is another.
#
#   broker -> raftlog -> proto -> libc, msgpack, OpenSSL
#
# - proto includes only proto; raftlog only raftlog and proto.
# - broker includes of raftlog only raftlog.h, and command.h and machine.h, which it brings.
# - The client tool (broker/tool*) includes nothing of raftlog: it is a client like any other.
# - holdfast.h, which is installed, includes nothing of ours.
# - <msgpack.h> lives in proto/pack.c, <lmdb.h> in raftlog/store.c, <raft.h> in raftlog/core.c, OpenSSL's hashes in
#   proto/secret.c and raftlog/handshake.c, its TLS in proto/tls.c.
# - <uv.h> stays out of proto, and in raftlog out of everything that the simulator runs.
# - Includes of ours are written from the repository root, so that the direction can be seen in each file.
#
# usage: tests/layers.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

bad=0
refuse()
{
    printf '%s: %s\n' "$1" "$2" >&2
    bad=1
}

# The libuv half of raftlog: everything else must run on a simulator's loop.
uv_half=' raftlog.h node.c node.h peer.c peer.h disk_posix.c disk_posix.h transfer.c transfer.h
    tick.c tick.h worker.c worker.h '

folders=()
for folder in proto raftlog broker tests; do [ ! -d $folder ] || folders+=($folder); done
sources=$(find "${folders[@]}" -name '*.[ch]' | sort)
[ -n "$sources" ] || { echo "layers: no sources found in $(pwd)" >&2; exit 1; }

while IFS=: read -r file line text; do
    where=$file:$line
    layer=${file%%/*}
    name=${file##*/}
    [[ $text =~ ^[[:space:]]*#[[:space:]]*include[[:space:]]*[\<\"]([^\>\"]*) ]] || continue
    target=${BASH_REMATCH[1]}
    case "$text" in *\"*) ours=yes ;; *) ours=no ;; esac

    if [ $ours = yes ]; then
        case "$target" in
            proto/*|raftlog/*|broker/*|tests/*)
                [ -e "$target" ] || refuse "$where" "$target does not exist" ;;
            *) refuse "$where" "\"$target\" is not written from the repository root" ;;
        esac
    fi
    case "$layer:$target" in
        tests:*) continue ;;
        *:tests/*) refuse "$where" "$layer must not include $target" ;;
        proto:raftlog/*|proto:broker/*|raftlog:broker/*)
            refuse "$where" "$layer must not include $target: that is upward" ;;
        broker:raftlog/raftlog.h|broker:raftlog/command.h|broker:raftlog/machine.h)
            case "$name" in tool*)
                refuse "$where" "the tool is a client: it must not include $target" ;;
            esac ;;
        broker:raftlog/*)
            refuse "$where" "broker sees raftlog only through raftlog.h, not $target" ;;
    esac
    [ "$name" != holdfast.h ] || [ $ours = no ] ||
        refuse "$where" "holdfast.h is installed alone; it must not include $target"
    case "$target" in
        lmdb.h) [ "$file" = raftlog/store.c ] || refuse "$where" "<lmdb.h> belongs to raftlog/store.c" ;;
        msgpack.h|msgpack/*)
            [ "$file" = proto/pack.c ] || refuse "$where" "<$target> belongs to proto/pack.c" ;;
        raft.h|raft/*)
            [ "$file" = raftlog/core.c ] || refuse "$where" "<$target> belongs to raftlog/core.c" ;;
        openssl/ssl.h|openssl/x509*|openssl/bio.h|openssl/pem.h|openssl/err.h)
            [ "$file" = proto/tls.c ] || refuse "$where" "<$target> belongs to proto/tls.c" ;;
        openssl/*)
            case "$file" in proto/secret.c|raftlog/handshake.c) ;;
                *) refuse "$where" "<$target> belongs to proto/secret.c" ;;
            esac ;;
        uv.h)
            case "$layer" in
                proto) refuse "$where" "proto must not depend on libuv" ;;
                raftlog)
                    case "$uv_half" in *" $name "*) ;; *$'\n'*" $name "*) ;;
                        *) refuse "$where" "<uv.h> belongs to the libuv half of raftlog:$uv_half" ;;
                    esac ;;
            esac ;;
    esac
done < <(grep -nHE '^[[:space:]]*#[[:space:]]*include' $sources)

exit $bad
