#!/bin/bash
# `engram compare` on several machines that share a folder, a shard on each, over ssh; docs/compare/cluster.md has more. From the
# root folder, which has the same path on all of them (the hosts, --, the options of engram compare):
#
#   bash apps/scripts/compare_ssh.sh gpu1 gpu2 gpu3 -- --config configs/compare/tmaze_length.ini --run runs/tmaze
#
# Every host must let ssh in without a password. Ctrl-C, or the end of this program however that comes, lets all runs
# save; the same command, with the same hosts or others, goes on. ENGRAM names the program where it is not
# build/release/engram.
set -uo pipefail

program=${ENGRAM:-build/release/engram}

refuse() {
  echo "compare_ssh.sh: $*" >&2
  exit 2
}

hosts=()
while (($# > 0)) && [[ $1 != -- ]]; do
  [[ $1 != -* ]] || refuse "'$1' is no host; options of engram compare stand behind --"
  hosts+=("$1")
  shift
done
(($# > 0)) || refuse "a -- is missing between the hosts and the options of engram compare, as in" \
  "gpu1 gpu2 -- --config FILE --run DIR"
shift
((${#hosts[@]} > 0)) || refuse "no host is named before --"
for argument in "$@"; do
  [[ $argument != --shard* ]] || refuse "--shard is chosen by the hosts: each has one"
done
command -v ssh >/dev/null || refuse "ssh was not found"

# On a host: the shard, which is told to save and leave when standard input ends, as it does with the other end of ssh.
# In one line, for the shells that do not take more in quotes.
# shellcheck disable=SC2016
on_host='cd "$1" && shift || exit 2; exec 3<&0; "$@" 3<&- & shard=$!; '
# shellcheck disable=SC2016
on_host+='{ while read -r _; do :; done; kill -TERM "$shard"; } <&3 >/dev/null 2>&1 & input=$!; '
# shellcheck disable=SC2016
on_host+='wait "$shard"; status=$?; kill "$input" 2>/dev/null; exit "$status"'

# What a shell, whichever the host has, reads as these words.
quoted() {
  local word
  for word in "$@"; do printf "'%s' " "${word//\'/\'\\\'\'}"; done
}

# Every ssh reads from one pipe, into which nothing is written. Only this program keeps it open: it ends with it.
pipe=$(mktemp -u) && mkfifo "$pipe" || exit 1
# shellcheck disable=SC2094
exec {open}<>"$pipe" {input}<"$pipe" {hold}>"$pipe" {open}>&-
rm "$pipe"
stopped=0
stop() {
  ((stopped == 0)) && exec {hold}>&-
  stopped=$1
}
trap 'stop 130' INT
trap 'stop 143' TERM HUP

shards=()
for i in "${!hosts[@]}"; do
  command=$(quoted bash -c "$on_host" compare "$PWD" "$program" compare "$@" --shard "$((i + 1))/${#hosts[@]}")
  {
    ssh -T -o BatchMode=yes -o ServerAliveInterval=30 "${hosts[i]}" "$command" <&"$input" 2>&1 |
      sed -u "s|^|${hosts[i]}: |"
  } {hold}>&- &
  shards+=($!)
done

failed=()
for i in "${!shards[@]}"; do
  while kill -0 "${shards[i]}" 2>/dev/null; do wait "${shards[i]}"; done  # a signal ends the wait, not the shard
  wait "${shards[i]}"
  status=$?
  ((status == 0)) || failed+=("${hosts[i]} ($status)")
done
((stopped == 0)) || exit "$stopped"
((${#failed[@]} == 0)) && exit
echo "compare_ssh.sh: not finished on ${failed[*]}; 255 is ssh itself. The same command goes on, with other hosts, too" >&2
exit 1
