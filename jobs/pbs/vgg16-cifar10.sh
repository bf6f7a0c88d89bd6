#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# VGG-16 on CIFAR-10, 16 workers, density 2 %, as in Ok-Topk
#   qsub jobs/pbs/vgg16-cifar10.sh    from the root of the tree
# Made by scripts/cluster_jobs.py; docs/cluster.md
#PBS -N vgg16-cifar10
#PBS -l select=1:ncpus=16:mpiprocs=16
#PBS -l walltime=04:00:00
#PBS -j oe
#PBS -r y
#
# qsub -l select=4:ncpus=32:mpiprocs=4 -l walltime=12:00:00 SCRIPT changes the lines above,
# qsub -v OUT=DIR,DATA=DIR those below.
cd "${PBS_O_WORKDIR:-.}" || exit 2
: "${TOPKNOT:=$(command -v topknot || echo "$PWD/build/release/topknot")}"
: "${LAUNCH:=mpiexec -n $(wc -l <"$PBS_NODEFILE") --hostfile $PBS_NODEFILE}"
: "${MINUTES:=240}"  # of walltime; the ranks are asked to save two minutes before
: "${QSUB:=qsub}"  # submits it again, with the flags that it was submitted with
: "${DATA=$HOME/data}"  # the folder of the data set; empty: as topknot finds it
: "${OUT:=runs/vgg16-cifar10}"
: "${ARGUMENTS=}"  # more words for topknot, as --set epochs=1
: "${RESTARTS:=100}"  # how often the job may be queued again
data=()
[[ -z $DATA ]] || data=(--data "$DATA")
: "${SCHEMES:=dense topka topkdsa gtopk gaussiank oktopk}"

queue_again() {
  ((${RESTARTED:-0} < RESTARTS)) || return
  echo "topknot: exit code $1, submitted again."
  RESTARTED=$((${RESTARTED:-0} + 1)) $QSUB -V "$OUT/job.pbs"
}
mkdir -p "$OUT"
[[ $0 -ef $OUT/job.pbs ]] || cp "$0" "$OUT/job.pbs"  # PBS removes its copy

clock() {
  trap 'kill "$nap"' TERM
  sleep $((MINUTES * 60 - 120)) &
  nap=$!
  wait "$nap" && kill -USR1 $$
}
clock >/dev/null 2>&1 &
trap "kill $!" EXIT

# Runs a command as all ranks. This shell gets USR1 and passes it on: the ranks save, and end
# with exit code 85.
ranks() {
  local code=127 status
  ((preempted)) && return 85
  $LAUNCH "$@" &
  child=$! asked=1
  while ((asked)); do
    asked=0
    wait "$child"
    status=$?
    ((status == 127)) || code=$status
  done
  child=
  return "$code"
}
child= preempted=0
trap 'asked=1 preempted=1; [[ -z $child ]] || kill -USR1 "$child"' USR1

# Continues the run in a folder where one has left a checkpoint.
resume_or_start() {
  how=()
  if compgen -G "$1/checkpoints/step-*/manifest" >/dev/null; then
    how=(--resume)
  elif [[ -e $1/run.json ]]; then
    how=(--overwrite)
  fi
}

# After a save, after a lost peer, and where the signal came before a rank listened, the job is
# queued again.
finish() {
  case $1 in
    85 | 75 | 138) queue_again "$1" ;;
  esac
  exit "$1"
}

ranks "$TOPKNOT" compare vgg16-cifar10 --scheme "${SCHEMES// /,}" \
  "${data[@]}" --out "$OUT" $ARGUMENTS
finish $?
