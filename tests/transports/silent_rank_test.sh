#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# One of four ranks stops, or sleeps: within the timeout the other three must end, each with
# a sentence that names it. Where it speaks, all must end in peace.
#
#   silent_rank_test.sh PROGRAM LAUNCHER...
set -u
program=$1
shift
sentence='blames rank 3 after [1-9]\.[0-9] s: rank 3 has been silent for 1 s'
status=0
for job in 'speak receive' 'speak send' 'speak channel' \
  'stop receive' 'stop send' 'stop channel' 'sleep receive'; do
  # shellcheck disable=SC2086
  said=$(timeout -k 5 60 "$@" "$program" $job 1 2>/dev/null)
  code=$?
  blames=$(echo "$said" | grep -c "$sentence")
  left=$(echo "$said" | grep -c '^left$')
  case "$job, exit $code, $blames blame it, $left left" in
    speak*", exit 0, 0 blame it, 0 left") echo "$job: ok" ;;
    s[tl]*", exit 124, "*) echo "$job: FAILED, hangs" && status=1 ;;
    s[tl]*", exit 0, "*) echo "$job: FAILED, exit 0" && status=1 ;;
    s[tl]*", 3 blame it, 3 left") echo "$job: ok" ;;
    *) echo "$job: FAILED, exit $code; the ranks said: $said" && status=1 ;;
  esac
done
exit $status
