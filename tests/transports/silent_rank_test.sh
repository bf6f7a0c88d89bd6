#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# One of four ranks stops, or sleeps: soon after the timeout the other three must end, each with
# a sentence that names it, also where they wait for each other. Where it answers, all must end
# without an error.
#
#   silent_rank_test.sh PROGRAM LAUNCHER...
set -u
program=$1
shift
status=0
set_job() { how=$1 what=$2 rank=${3-3}; }
for job in 'speak receive' 'speak send' 'speak channel' \
  'stop receive' 'stop send' 'stop channel' 'sleep receive' \
  'stop topka 0' 'stop topka 1' 'stop topka 2' 'stop topka 3' 'stop knot 1' 'stop dense 2'; do
  # shellcheck disable=SC2086
  set_job $job
  sentence="blames rank $rank after [1-9]\.[0-9] s: rank $rank has been silent for 1 s"
  said=$(timeout -k 5 60 "$@" "$program" "$how" "$what" 1 "$rank" 2>/dev/null)
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
