// SPDX-License-Identifier: Apache-2.0
#include "cli/batch_script.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/help.h"
#include "cli/subprocess.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

// ---- Slurm. sbatch's flags count before these lines.

constexpr std::string_view kSlurmHead = R"(#!/usr/bin/env bash
#SBATCH --job-name=@NAME@
#SBATCH --nodes=1
#SBATCH --ntasks=@RANKS@
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
#
# sbatch --nodes=4 --ntasks=16 --time=12:00:00 SCRIPT changes the lines above, the environment
# those below: LAUNCH="srun --mpi=pmix" sbatch SCRIPT.
: "${TOPKNOT:=@TOPKNOT@}"
: "${LAUNCH:=mpirun}"  # starts the ranks; the mpirun of the MPI that topknot was built with
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
)";

constexpr std::string_view kSlurmRequeue = R"(
queue_again() {
  ((${SLURM_RESTART_COUNT:-0} < RESTARTS)) || return
  echo "topknot: exit code $1, queued again."
  scontrol requeue "$SLURM_JOB_ID"
}
)";

// ---- PBS. It warns of nothing: the script has a clock of its own. Where users may not requeue,
// they may submit.

constexpr std::string_view kPbsHead = R"(#!/usr/bin/env bash
#PBS -N @NAME@
#PBS -l select=1:ncpus=@RANKS@:mpiprocs=@RANKS@
#PBS -l walltime=04:00:00
#PBS -j oe
#PBS -r y
#
# qsub -l select=4:ncpus=32:mpiprocs=4 -l walltime=12:00:00 SCRIPT changes the lines above,
# qsub -v OUT=DIR,DATA=DIR those below.
cd "${PBS_O_WORKDIR:-.}" || exit 2
: "${TOPKNOT:=@TOPKNOT@}"
: "${LAUNCH:=mpiexec -n $(wc -l <"$PBS_NODEFILE") --hostfile $PBS_NODEFILE}"
: "${MINUTES:=240}"  # of walltime; the ranks are asked to save two minutes before
: "${QSUB:=qsub}"  # submits it again, with the flags that it was submitted with
)";

constexpr std::string_view kPbsRequeue = R"(
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
)";

// ---- both

constexpr std::string_view kVariables =
    R"(: "${DATA=@DATA@}"  # the folder of the data set; empty: as topknot finds it
: "${OUT:=@OUT@}"
: "${ARGUMENTS=}"  # more words for topknot, as --set epochs=1
: "${RESTARTS:=@RESTARTS@}"  # how often the job may be queued again
data=()
[[ -z $DATA ]] || data=(--data "$DATA")
)";

// `wait` returns when a signal comes, so it is called again; 127 is that of a child it has told
// of before.
constexpr std::string_view kFunctions = R"(
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

)";

std::string job_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) {
        return !std::isalnum(c) && c != '.' && c != '-' && c != '_';
      },
      '-');
  return name;
}

void replace(std::string& text, std::string_view what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos;
       at += by.size())
    text.replace(at, what.size(), by);
}

/// `word` inside double quotes, where $HOME is still read.
std::string in_double_quotes(const std::string& word) {
  std::string text;
  for (const char c : word) {
    if (c == '"' || c == '\\' || c == '`' || c == '}') text += '\\';
    text += c;
  }
  return text;
}

/// A name as it is, a file by a path that holds wherever the script is run.
std::string job_word(const std::string& job) {
  const bool file = job.find('/') != std::string::npos || job.ends_with(".toml");
  return file ? std::filesystem::absolute(job).lexically_normal().string() : job;
}

}  // namespace

BatchScript training_script(const train::Job& job, const std::string& name_or_file,
                            const std::string& words, const std::string& out,
                            int restarts) {
  BatchScript script;
  script.name = job.name;
  script.ranks = static_cast<int>(job.workers);
  script.data = job.folder;
  script.out = out;
  script.restarts = restarts;
  script.body = "resume_or_start \"$OUT\"\nranks \"$TOPKNOT\" train " +
                quoted(job_word(name_or_file)) + words;
  script.body += R"( \
  "${data[@]}" --out "$OUT" "${how[@]}" $ARGUMENTS
finish $?
)";
  return script;
}

BatchScript comparison_script(const train::Job& job, const std::string& name_or_file,
                              const std::vector<std::string>& schemes,
                              const std::string& words, const std::string& out) {
  std::string list;
  for (const std::string& one : schemes) list += (list.empty() ? "" : " ") + one;
  BatchScript script;
  script.name = job.name;
  script.ranks = static_cast<int>(job.workers);
  script.data = job.folder;
  script.out = out;
  script.variables = ": \"${SCHEMES:=" + in_double_quotes(list) + "}\"\n";
  script.body = "ranks \"$TOPKNOT\" compare " + quoted(job_word(name_or_file)) +
                " --scheme \"${SCHEMES// /,}\"" + words;
  script.body += R"( \
  "${data[@]}" --out "$OUT" $ARGUMENTS
finish $?
)";
  return script;
}

std::string to_text(const BatchScript& script, Scheduler scheduler) {
  const bool slurm = scheduler == Scheduler::slurm;
  std::string text;
  text += slurm ? kSlurmHead : kPbsHead;
  text += kVariables;
  text += script.variables;
  text += slurm ? kSlurmRequeue : kPbsRequeue;
  text += kFunctions;
  const std::string name = job_name(script.name);
  replace(text, "@NAME@", name);
  replace(text, "@RANKS@", std::to_string(script.ranks));
  replace(text, "@RESTARTS@", std::to_string(script.restarts));
  replace(text, "@TOPKNOT@", in_double_quotes(this_program()));
  replace(text, "@DATA@", in_double_quotes(script.data));
  replace(text, "@OUT@",
          in_double_quotes(script.out.empty() ? "runs/" + name : script.out));
  return text + script.body;
}

std::string quoted(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_-./=:,+@%").find(static_cast<char>(c)) !=
                                  std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> given_list(const CLI::App& command,
                                    std::span<const std::string_view> without) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool skipped = std::find(without.begin(), without.end(), name) != without.end();
    if (option->count() == 0 || skipped) continue;
    if (!option->get_positional()) words.push_back(name);
    if (option->get_items_expected() == 0) continue;
    words.insert(words.end(), option->results().begin(), option->results().end());
  }
  return words;
}

std::string given_words(const CLI::App& command,
                        std::span<const std::string_view> without) {
  std::string text;
  for (const std::string& word : given_list(command, without)) text += " " + quoted(word);
  return text;
}

void BatchFlags::add_to(CLI::App& command) {
  command.add_flag("--print-sbatch", slurm, "Only print a script for Slurm's sbatch")
      ->group(kAlso);
  command.add_flag("--print-pbs", pbs, "Only print a script for the qsub of PBS")
      ->group(kAlso);
}

Scheduler BatchFlags::scheduler() const {
  if (slurm && pbs)
    throw ConfigError("--print-sbatch and --print-pbs print one script each; give one.");
  return slurm ? Scheduler::slurm : Scheduler::pbs;
}

}  // namespace topknot::cli
