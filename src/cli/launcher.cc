// SPDX-License-Identifier: Apache-2.0
#include "cli/launcher.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string_view>

namespace topknot::cli {
namespace {

bool has(const char* name) { return std::getenv(name) != nullptr; }

std::optional<int> number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < 0 || value > 1'000'000) return std::nullopt;
  return static_cast<int>(value);
}

/// The first of these that is a number.
std::optional<int> number(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto value = number(name)) return value;
  return std::nullopt;
}

bool any_begins_with(std::string_view prefix) {
  if (environ == nullptr) return false;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::string_view(*variable).starts_with(prefix)) return true;
  return false;
}

int allowed_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int lines_of(const char* file) {
  if (file == nullptr) return 0;
  std::ifstream stream(file);
  int lines = 0;
  for (std::string line; std::getline(stream, line);) ++lines;
  return lines;
}

}  // namespace

std::optional<Launcher> find_launcher() {
  if (const auto size = number("OMPI_COMM_WORLD_SIZE"))
    return Launcher{"mpirun", *size, number("OMPI_COMM_WORLD_LOCAL_RANK")};
  // Slurm has these in the batch script, too; only a step has a number of tasks.
  const auto tasks = number("SLURM_STEP_NUM_TASKS");
  const bool step = tasks && has("SLURM_PROCID");
  if (const auto size = number("PMI_SIZE")) {
    const bool by_srun = step && !has("MPI_LOCALNRANKS");
    return Launcher{by_srun ? "srun" : "mpiexec", *size,
                    number({"MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK",
                            "SLURM_LOCALID"})};
  }
  if (step && *tasks > 1) return Launcher{"srun", *tasks, number("SLURM_LOCALID")};
  if (has("TORCHELASTIC_RUN_ID") || (has("MASTER_ADDR") && has("LOCAL_RANK")))
    if (const auto size = number("WORLD_SIZE"); size && *size > 1 && has("RANK"))
      return Launcher{"torchrun", *size, number("LOCAL_RANK")};
  return std::nullopt;
}

std::string why_not_mpi(const Launcher& launcher, const std::string& mpi_library) {
  const std::string started =
      launcher.name + " started " + std::to_string(launcher.size) + " processes";
  if (launcher.name == "torchrun")
    return started +
           ", but the command's ranks find each other by MPI: start it as `mpirun -n " +
           std::to_string(launcher.size) +
           " topknot ...`, or use the Python package under torchrun.";
  if (launcher.name != "srun") return "";
  if (mpi_library.starts_with("Open MPI") && !any_begins_with("PMIX_"))
    return started +
           " without PMIx, by which Open MPI's ranks find each other: use `srun "
           "--mpi=pmix`, or `mpirun` inside the allocation (`srun --mpi=list` says what "
           "this Slurm has).";
  if (!any_begins_with("PMI"))
    return started +
           " without a PMI, by which MPI's ranks find each other: use `srun --mpi=pmi2`, "
           "or `mpirun` inside the allocation (`srun --mpi=list` says what this Slurm "
           "has).";
  return "";
}

std::string forgotten_launcher() {
  const bool slurm = has("SLURM_JOB_ID");
  const int tasks = slurm ? number({"SLURM_NTASKS", "SLURM_NPROCS"}).value_or(1)
                          : lines_of(std::getenv("PBS_NODEFILE"));
  if (tasks <= 1) return "";
  return std::string(slurm ? "Slurm" : "PBS") + " has granted " + std::to_string(tasks) +
         " tasks, but all ranks are threads of this process, on one host; " +
         (slurm ? "`srun --mpi=pmix topknot ...` or " : "") +
         "`mpirun topknot ...` makes each task a rank.";
}

ThreadsOfRank granted_threads() {
  if (!find_launcher()) return {};
  for (const char* name : {"SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"})
    if (const auto count = number(name); count && *count > 0)
      return {std::min(*count, allowed_processors()), name};
  return {};
}

}  // namespace topknot::cli
