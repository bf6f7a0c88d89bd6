// SPDX-License-Identifier: Apache-2.0
#include "cli/command/supervised.h"

#include <fmt/core.h>

#include <string_view>

#include "cli/batch_script.h"
#include "cli/subprocess.h"
#include "cli/supervisor.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

// What the supervisor does, or changes from attempt to attempt.
constexpr std::string_view kNotForRanks[] = {"--set",        "--workers",  "--resume",
                                             "--overwrite",  "--restarts", "--launcher",
                                             "--min-workers"};

}  // namespace

std::vector<std::string> words_for_ranks(const CLI::App& command) {
  std::vector<std::string> words = given_list(command, kNotForRanks);
  for (const std::string& setting : command.get_option("--set")->results())
    if (!setting.starts_with("workers=")) words.insert(words.end(), {"--set", setting});
  return words;
}

int train_supervised(const TrainOptions& options, const train::Job& job) {
  const auto workers = static_cast<int>(job.workers);
  const int least = options.min_workers.value_or(workers);
  if (least > workers)
    throw ConfigError(fmt::format(
        "--min-workers {} is more than the {} workers of the run.", least, workers));
  Supervision how;
  how.command = {this_program(), "train"};
  how.command.insert(how.command.end(), options.for_ranks.begin(),
                     options.for_ranks.end());
  how.launcher = CLI::detail::split_up(options.launcher);
  if (!how.launcher.empty() && !options.out.empty())
    how.command.emplace_back("--supervised");
  how.out = options.out;
  how.use = options.use();
  how.workers = workers;
  how.least_workers = least;
  how.restarts = options.restarts.value_or(0);
  return supervise(how);
}

}  // namespace topknot::cli
