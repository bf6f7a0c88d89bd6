#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# LSTM of 2 x 500 on WikiText-2, 8 workers, density 1 %, as in ADTopk
#   sbatch jobs/slurm/lstm-wikitext2.sh    from the root of the tree
# Made by scripts/cluster_jobs.py; docs/cluster.md
#SBATCH --job-name=lstm-wikitext2
#SBATCH --nodes=1
#SBATCH --ntasks=8
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
#
# sbatch --nodes=4 --ntasks=16 --time=12:00:00 SCRIPT changes the lines above, the environment
# those below: LAUNCH="srun --mpi=pmix" sbatch SCRIPT.
: "${TOPKNOT:=$(command -v topknot || echo "$PWD/build/release/topknot")}"
: "${LAUNCH:=mpirun}"  # starts the ranks; the mpirun of the MPI that topknot was built with
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
: "${DATA=$HOME/data}"  # the folder of the data set; empty: as topknot finds it
: "${OUT:=runs/lstm-wikitext2}"
: "${ARGUMENTS=}"  # more words for topknot, as --set epochs=1
: "${RESTARTS:=100}"  # how often the job may be queued again
data=()
[[ -z $DATA ]] || data=(--data "$DATA")
: "${SCHEMES:=dense topka topkdsa gtopk gaussiank oktopk}"

queue_again() {
  ((${SLURM_RESTART_COUNT:-0} < RESTARTS)) || return
  echo "topknot: exit code $1, queued again."
  scontrol requeue "$SLURM_JOB_ID"
}

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

ranks "$TOPKNOT" compare lstm-wikitext2 --scheme "${SCHEMES// /,}" \
  "${data[@]}" --out "$OUT" $ARGUMENTS
finish $?
