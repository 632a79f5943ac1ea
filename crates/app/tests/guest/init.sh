#!/bin/busybox sh
# The first process of the guest: moves out of the initramfs, then runs a cluster and tells what it sees, as lines
# `GUEST name=value` on the console. It judges nothing; that is the test's.

if [ "$1" != moved ]; then
    # Nobody can pivot away from the initramfs, and containers must: go on from a file system of our own.
    busybox mkdir /new
    busybox mount -t tmpfs -o size=80% root /new
    busybox cp /init /new/
    busybox mv /bin /etc /lib /lib64 /manifests /new/
    /new/bin/busybox mkdir -p /new/proc /new/sys /new/dev /new/tmp /new/var/lib /new/run /new/root
    exec /new/bin/busybox switch_root /new /bin/busybox sh /init moved
fi

export PATH=/bin HOME=/root KUBECONFIG=/root/kubeconfig
DATA=/var/lib/xebec
CGROUPS=/sys/fs/cgroup
busybox mount -t proc proc /proc
busybox --install -s /bin
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup2 $CGROUPS

# The kernel's own line is the other one.
exec >/dev/ttyS0 2>&1

tell() { echo "GUEST $1=$2"; }

# The firmware leaves the line begun.
echo
tell booted yes

# Ends the guest; what is missing then is what the test shows.
end() {
    tell end "$1"
    busybox poweroff -f
    exit 1
}

# until_ok NAME SECONDS COMMAND...: until the command succeeds.
until_ok() {
    what=$1 left=$2
    shift 2
    until "$@"; do
        left=$((left - 1))
        if [ $left -le 0 ]; then
            echo "--- log of xebec"
            tail -n 60 /run/xebec.log
            echo "--- cgroups"
            find $CGROUPS -type d | grep -v '^/sys/fs/cgroup$'
            dmesg | tail -n 20
            end "gave up waiting: $what"
        fi
        sleep 1
    done
}

# The process (not of the holders) that was started with these words.
process() {
    for each in /proc/[0-9]*; do
        if [ "$(tr '\0' ' ' 2>/dev/null <"$each/cmdline")" = "/bin/toolbox $1 " ]; then
            echo "${each#/proc/}"
            return 0
        fi
    done
    return 1
}

cgroup_of() { echo "$CGROUPS$(sed -n 's/^0:://p' "/proc/$1/cgroup")"; }
field() { sed -n "s/^$2 //p" "$1"; }

# Each after those that it needs.
for module in /lib/modules/*.ko; do
    insmod "$module"
done
ip link set lo up
ip link add eth0 type dummy
ip addr add 192.0.2.1/24 dev eth0
ip link set eth0 up
ip route add default via 192.0.2.254

tell kernel "$(uname -r)"
tell cgroup_mounts "$(awk '$3 ~ /^cgroup/ {printf "%s ", $3}' /proc/mounts)"

start() {
    : >/run/xebec.out
    xebec up --node-name guest --cgroup-root / -v 2 --data-dir $DATA >>/run/xebec.out 2>>/run/xebec.log &
    server=$!
    until_ok "xebec up" 150 is_ready
    cat /run/xebec.out
    kill -0 $server || { cat /run/xebec.log; end "xebec up ended"; }
}
is_ready() { grep -q 'Your cluster is ready' /run/xebec.out || ! kill -0 $server; }
start
cp /manifests/*.yaml $DATA/manifests/

has_started() { process "$1" >/dev/null; }
until_ok "the busy pod" 60 has_started "eat cpu"
until_ok "the web pod" 60 has_started "http"
busy=$(cgroup_of "$(process 'eat cpu')")
was_throttled() { [ "$(field "$busy/cpu.stat" nr_throttled)" -gt 3 ]; }
until_ok "throttling" 60 was_throttled
tell busy.cgroup "${busy#"$CGROUPS"}"
for file in cpu.max memory.max memory.swap.max memory.oom.group pids.max; do
    [ -e "$busy/$file" ] && tell "busy.$file" "$(cat "$busy/$file")"
done
tell busy.nr_throttled "$(field "$busy/cpu.stat" nr_throttled)"
tell busy.pod.cpu.max "$(cat "$busy/../cpu.max")"
tell busy.pod.memory.max "$(cat "$busy/../memory.max")"
tell burstable.cpu.weight "$(cat $CGROUPS/kubepods/burstable/cpu.weight)"
tell besteffort.cpu.weight "$(cat $CGROUPS/kubepods/besteffort/cpu.weight)"

web=$(process "http")
tell web.cgroup "$(cgroup_of "$web" | sed "s,^$CGROUPS,,")"
address=$(nsenter -t "$web" -n ip -4 -o addr show dev eth0 | sed 's/.*inet \([0-9.]*\).*/\1/')
answers() { toolbox get "http://$address:8080/" >/run/answer 2>&1; }
until_ok "an answer of the web pod" 30 answers
tell web.answer "$(cat /run/answer)"
# Devices, opened from the container's cgroup and from outside of it: one for the machine alone, one for all.
opens='for each in kmsg null; do (: >/dev/$each) 2>/dev/null && echo $each; done | tr "\n" " "'
tell web.devices "$(sh -c "echo 0 >$(cgroup_of "$web")/cgroup.procs; $opens")"
tell host.devices "$(sh -c "$opens")"

# The first process of the pod that shares its processes: nothing is behind it, and no device is its.
pause() { grep -lx pause /proc/[0-9]*/comm 2>/dev/null | sed 's,/proc/,,;s,/comm,,'; }
until_ok "the pod that shares its processes" 60 has_started "sleep 4321"
tell pause.cgroup "$(cgroup_of "$(pause)" | sed "s,.*/,,")"
tell pause.root "$(ls -A "/proc/$(pause)/root/" | wc -l)"
tell pause.rights "$(sed -n 's/^CapBnd:\t//p' "/proc/$(pause)/status")"
tell pause.devices "$(sh -c "echo 0 >$(cgroup_of "$(pause)")/cgroup.procs; $opens")"

exit_file() { find $DATA -name exit.json | xargs -r grep -l '"oom_killed": *true' >/run/exits; [ -s /run/exits ]; }
until_ok "the pod out of memory" 90 exit_file
tell hungry.exit "$(cat "$(head -n 1 /run/exits)" | tr -d '\n ')"
if [ -x /bin/kubectl ]; then
    ask() { kubectl --kubeconfig $DATA/kubeconfig "$@" 2>&1; }
    reason='{.status.phase} {.status.containerStatuses[0].state.terminated.reason}'
    has_reason() { ask get pod hungry-guest -o "jsonpath=$reason" | grep OOMKilled >/run/reason; }
    until_ok "the status of the pod out of memory" 30 has_reason
    tell hungry.status "$(cat /run/reason)"
    # Without what kubectl itself complains of: before 1.33 it may read from the connection before its streams exist.
    see() {
        pod=$1
        shift
        kubectl --kubeconfig $DATA/kubeconfig exec "$pod" -- "$@" 2>/run/exec.err
    }
    tell family.exec "$(see family-guest ls /proc/1/root/ || cat /run/exec.err)"
    tell web.exec "$(see web-guest cat /proc/self/cgroup /sys/fs/cgroup/cpu.weight | tr '\n' ' ')"
fi

# A server that crashed finds the cgroups as they are, and can still end what does not want to.
process "eat cpu" >/run/before
kill -9 $server
wait $server
start
process "eat cpu" >/run/after
cmp /run/before /run/after && tell busy.survived yes
rm $DATA/manifests/busy.yaml
is_gone() { ! [ -e "${busy%/*}" ]; }
until_ok "the end of the busy pod" 60 is_gone
tell web.after "$(toolbox get "http://$address:8080/" 2>&1)"

xebec down --purge --data-dir $DATA
tell purge "$?"
tell left "$(find $CGROUPS -mindepth 1 -type d | tr '\n' ' ')"
tell uptime "$(cut -d' ' -f1 /proc/uptime)"
end "done"
