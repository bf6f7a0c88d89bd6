// SPDX-License-Identifier: Apache-2.0
#include "cli/launcher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cli/folders.h"
#include "cli/interfaces.h"
#include "refusal.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

/// The environment as a launcher makes it, with nothing left of the one that runs this test.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, const char*>> variables) {
    for (char** one = environ; *one != nullptr; ++one) before_.emplace_back(*one);
    clearenv();
    for (const auto& [name, value] : variables) setenv(name, value, 1);
  }
  ~Environment() {
    clearenv();
    for (const std::string& one : before_) {
      const std::size_t sign = one.find('=');
      setenv(one.substr(0, sign).c_str(), one.substr(sign + 1).c_str(), 1);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::string> before_;
};

struct Found {
  std::string name;
  int size = 0;
  int local_rank = -1;
  bool operator==(const Found&) const = default;
};

Found found() {
  const auto launcher = find_launcher();
  if (!launcher) return {};
  return {launcher->name, launcher->size, launcher->local_rank.value_or(-1)};
}

TEST(Launcher, IsNoneForACommandOfItsOwn) {
  const Environment environment({{"PATH", "/bin"}});
  EXPECT_FALSE(find_launcher());
}

TEST(Launcher, IsOpenMpisMpirun) {
  const Environment environment(
      {{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}});
  EXPECT_EQ(found(), (Found{"mpirun", 8, 3}));
}

TEST(Launcher, IsOpenMpisMpirunInsideSlurm) {
  const Environment environment({{"OMPI_COMM_WORLD_SIZE", "8"},
                                 {"SLURM_PROCID", "0"},
                                 {"SLURM_STEP_NUM_TASKS", "2"}});  // its daemons
  EXPECT_EQ(found(), (Found{"mpirun", 8, -1}));
}

TEST(Launcher, IsMpichsOrCraysMpiexec) {
  {
    const Environment environment(
        {{"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
    EXPECT_EQ(found(), (Found{"mpiexec", 4, 1}));
  }
  const Environment environment({{"PMI_SIZE", "16"}, {"PALS_LOCAL_RANKID", "2"}});
  EXPECT_EQ(found(), (Found{"mpiexec", 16, 2}));
}

TEST(Launcher, IsSrunByItsStep) {
  {
    const Environment environment(
        {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "0"}});
    EXPECT_EQ(found(), (Found{"srun", 4, 0}));
  }
  const Environment environment({{"SLURM_PROCID", "2"},
                                 {"SLURM_STEP_NUM_TASKS", "4"},
                                 {"SLURM_LOCALID", "1"},
                                 {"PMI_SIZE", "4"}});
  EXPECT_EQ(found(), (Found{"srun", 4, 1}));
}

TEST(Launcher, IsNoneInABatchScriptNorInAShellOfSlurm) {
  {
    const Environment environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
    EXPECT_FALSE(find_launcher());
  }
  const Environment environment({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_FALSE(find_launcher());
}

TEST(Launcher, IsTorchrun) {
  const Environment environment({{"RANK", "1"},
                                 {"WORLD_SIZE", "2"},
                                 {"LOCAL_RANK", "1"},
                                 {"MASTER_ADDR", "localhost"}});
  EXPECT_EQ(found(), (Found{"torchrun", 2, 1}));
  EXPECT_NE(why_not_mpi(*find_launcher(), "MPICH").find("mpirun -n 2"),
            std::string::npos);
}

TEST(Launcher, IsNotWhatASizeThatIsNoneSays) {
  for (const char* size : {"", "four", "4x", "-1", "99999999999999999999"}) {
    const Environment environment({{"OMPI_COMM_WORLD_SIZE", size}});
    EXPECT_FALSE(find_launcher()) << size;
  }
}

TEST(WhyNotMpi, NamesThePmiThatSrunNeeds) {
  const Launcher srun{"srun", 4, 0};
  {
    const Environment environment({});
    EXPECT_NE(why_not_mpi(srun, "Open MPI v4.1.4").find("--mpi=pmix"), std::string::npos);
    EXPECT_NE(why_not_mpi(srun, "MPICH").find("--mpi=pmi2"), std::string::npos);
  }
  {
    const Environment environment({{"PMIX_RANK", "0"}});
    EXPECT_EQ(why_not_mpi(srun, "Open MPI v4.1.4"), "");
  }
  const Environment environment({{"PMI_FD", "5"}});
  EXPECT_NE(why_not_mpi(srun, "Open MPI v4.1.4"), "");
  EXPECT_EQ(why_not_mpi(srun, "MPICH"), "");
  EXPECT_EQ(why_not_mpi({"mpirun", 4, 0}, "MPICH"), "");
}

TEST(ForgottenLauncher, IsSaidWhereASchedulerHasGrantedMoreThanOneTask) {
  {
    const Environment environment({{"SLURM_JOB_ID", "9"}, {"SLURM_NTASKS", "4"}});
    EXPECT_NE(forgotten_launcher().find("Slurm has granted 4 tasks"), std::string::npos);
  }
  {
    const Environment environment({{"SLURM_JOB_ID", "9"}, {"SLURM_NTASKS", "1"}});
    EXPECT_EQ(forgotten_launcher(), "");
  }
  const test::ScratchFolder folder;
  const std::string nodes = (folder.path() / "nodes").string();
  test::write_text(nodes, "a\na\nb\n");
  const Environment environment({{"PBS_NODEFILE", nodes.c_str()}});
  EXPECT_NE(forgotten_launcher().find("PBS has granted 3 tasks"), std::string::npos);
}

TEST(GrantedThreads, AreTheAllocationsForLaunchedProcessesOnly) {
  {
    const Environment environment({{"SLURM_CPUS_PER_TASK", "1"}});
    EXPECT_EQ(granted_threads().source, "");
  }
  {
    const Environment environment({{"OMPI_COMM_WORLD_SIZE", "2"},
                                   {"SLURM_CPUS_PER_TASK", "1"},
                                   {"OMP_NUM_THREADS", "7"}});
    EXPECT_EQ(granted_threads().count, 1);
    EXPECT_EQ(granted_threads().source, "SLURM_CPUS_PER_TASK");
  }
  const Environment environment(
      {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMP_NUM_THREADS", "1000000"}});
  EXPECT_EQ(granted_threads().source, "OMP_NUM_THREADS");
  EXPECT_LE(granted_threads().count, sysconf(_SC_NPROCESSORS_ONLN));
}

TEST(Interfaces, HaveTheLoopbackWhichLeadsNowhere) {
  const auto all = find_interfaces();
  bool loopback = false;
  for (const Interface& one : all) loopback |= one.loopback && one.name == "lo";
  EXPECT_TRUE(loopback);
  for (const Interface& one : usable(all)) {
    EXPECT_FALSE(one.loopback || one.local) << one.name;
    EXPECT_NE(one.address, "") << one.name;
  }
}

TEST(Interfaces, ThatCannotBeUsedAreRefusedWithThoseThatCan) {
  std::vector<Interface> all(4);
  all[0] = {.name = "lo", .address = "127.0.0.1/8", .up = true, .loopback = true};
  all[1] = {.name = "eth0", .address = "10.0.0.5/24", .up = true, .mbit = 10000};
  all[2] = {.name = "ib0", .address = "10.1.0.5/24"};
  all[3] = {.name = "eth1", .up = true};
  const std::string can = "those that can be used are eth0 (10.0.0.5/24, 10000 Mbit/s).";
  for (const auto& [name, wrong] :
       {std::pair("eth9", "There is no network interface eth9 on this host; "),
        {"ib0", "The network interface ib0 is down; "},
        {"eth1", "The network interface eth1 has no IPv4 address; "}})
    EXPECT_EQ(testing::refusal<ConfigError>([&] { require_usable(name, all); }),
              wrong + can);
  require_usable("eth0", all);
  require_usable("lo", all);  // ranks of one host may be told to
}

TEST(Interfaces, AreChosenByTheVariablesOfTheLibraries) {
  {
    const Environment environment({{"OMPI_MCA_btl_tcp_if_exclude", "eth7"}});
    choose_interface("lo");
    EXPECT_STREQ(getenv("OMPI_MCA_btl_tcp_if_include"), "lo");
    EXPECT_EQ(getenv("OMPI_MCA_btl_tcp_if_exclude"), nullptr);
    EXPECT_EQ(interfaces_in_use(), "lo");
  }
  {
    const Environment environment({{"OMPI_MCA_btl_tcp_if_include", "eth7"}});
    choose_interface("");
    EXPECT_EQ(getenv("OMPI_MCA_btl_tcp_if_exclude"), nullptr);
    EXPECT_EQ(interfaces_in_use(), "eth7");
  }
  const Environment environment({});
  choose_interface("");
  EXPECT_EQ(std::string(getenv("OMPI_MCA_btl_tcp_if_exclude")).find("127.0.0.0/8"), 0u);
}

}  // namespace
}  // namespace topknot::cli
