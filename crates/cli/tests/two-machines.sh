#!/usr/bin/env bash
# Trains a plan on two machines, which are two network namespaces joined by a cable, and nothing else:
#     two-machines.sh DAPPLE FOLDER [cut]
# FOLDER holds plan.toml, and gets the run `cable`. Each machine has a name and an address of its own, and ranks speak TCP. With `cut`, the cable is
# unplugged while the run goes on. Needs root, iproute2, util-linux and Open MPI; exits 77 where namespaces cannot be made.
set -euo pipefail
program=$1 folder=$2 cut=${3:-}
one=dapple-$$-a two=dapple-$$-b
net=10.77.$((RANDOM % 250))

# The processes of both machines, or those of them that run the program.
processes() {
    for space in "$one" "$two"; do
        ip netns pids "$space" 2>/dev/null || true
    done
}
ranks() {
    for id in $(processes); do
        [ "$(readlink "/proc/$id/exe")" != "$(readlink -f "$program")" ] || echo "$id"
    done
}
clean() {
    # Open MPI's own helpers may wait for each other for ever once the cable is out.
    for id in $(processes); do
        kill -9 "$id" 2>/dev/null || true
    done
    ip netns del "$one" 2>/dev/null || true
    ip netns del "$two" 2>/dev/null || true
    rm -f "$folder/agent"
}
trap clean EXIT
ip netns add "$one" 2>/dev/null || exit 77
ip netns add "$two" || exit 77
ip link add "da$$" netns "$one" type veth peer name "db$$" netns "$two" 2>/dev/null || exit 77
for side in "$one da$$ 1" "$two db$$ 2"; do
    read -r space cable number <<<"$side"
    ip -n "$space" address add "$net.$number/24" dev "$cable"
    ip -n "$space" link set "$cable" up
    ip -n "$space" link set lo up
done

# What `ssh` would do: mpirun starts its helper on the other machine by this.
cat >"$folder/agent" <<EOF
#!/bin/sh
shift
exec ip netns exec $two unshare --uts sh -c 'hostname machine-b; exec sh -c "\$0"' "\$*"
EOF
chmod +x "$folder/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 NO_COLOR=1
start() {
    ip netns exec "$one" unshare --uts sh -c 'hostname machine-a; exec "$@"' sh mpirun \
        --mca plm_rsh_agent "$folder/agent" --mca btl tcp,self --mca btl_tcp_if_include "$net.0/24" \
        --mca oob_tcp_if_include "$net.0/24" --host "$net.1:1,$net.2:1" --bind-to none -n 2 -wdir "$folder" \
        "$program" "$@"
}
if [ "$cut" = cut ]; then
    start train plan.toml --out cable --device cpu --quiet >/dev/null &
    run=$!
    until [ "$(wc -l 2>/dev/null <"$folder/cable/private/diagnostics.jsonl" || echo 0)" -ge 3 ]; do
        kill -0 "$run" || exit 1
        sleep 0.05
    done
    ip -n "$one" link set "da$$" down
    # Patience is a matter of seconds. That of Open MPI's launcher is its own.
    for _ in $(seq 600); do
        [ -n "$(ranks)" ] || exit 0
        sleep 0.1
    done
    exit 1
else
    start train plan.toml --out cable --device cpu --quiet
fi
