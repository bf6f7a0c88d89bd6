#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# One of four ranks stops, or sleeps: soon after the timeout the other three must end, each with
# a sentence that names it, also where they wait for each other. Where it answers, all must end
# without an error. Jobs that wait take no time of a processor, so three run at once.
#
#   silent_rank_test.sh PROGRAM LAUNCHER...
set -u
program=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

run_job() {  # HOW WHAT [RANK]; says what became of it
  job="$*" rank=${3-3}
  sentence="blames rank $rank after [1-9]\.[0-9] s: rank $rank has been silent for 1 s"
  said=$(timeout -k 5 60 $launcher "$program" "$1" "$2" 1 "$rank" 2>/dev/null)
  code=$?
  blames=$(echo "$said" | grep -c "$sentence")
  left=$(echo "$said" | grep -c '^left$')
  case "$job, exit $code, $blames blame it, $left left" in
    speak*", exit 0, 0 blame it, 0 left") echo "$job: ok" ;;
    s[tl]*", exit 124, "*) echo "$job: FAILED, hangs" ;;
    s[tl]*", exit 0, "*) echo "$job: FAILED, exit 0" ;;
    s[tl]*", 3 blame it, 3 left") echo "$job: ok" ;;
    *) echo "$job: FAILED, exit $code; the ranks said: $said" ;;
  esac
}

launcher=$*
count=0
for job in 'speak receive' 'speak send' 'speak channel' \
  'stop receive' 'stop send' 'stop channel' 'sleep receive' \
  'stop topka 0' 'stop topka 1' 'stop topka 2' 'stop topka 3' 'stop knot 1' 'stop dense 2'; do
  # shellcheck disable=SC2086
  (run_job $job >"$folder/$job") &
  count=$((count + 1))
  if [ $((count % 3)) = 0 ]; then wait; fi
done
wait
cat "$folder"/*
[ "$(cat "$folder"/* | grep -c ': ok$')" = "$count" ]
