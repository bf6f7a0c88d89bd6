// SPDX-License-Identifier: Apache-2.0
//
// The command: parses, calls, prints.
#include <fmt/core.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command/job_workload.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/errors.h"
#include "cli/help.h"
#include "cli/job_file.h"
#include "cli/launch.h"
#include "cli/machine.h"
#include "core/names.h"
#include "topknot/error.h"
#include "train/train.h"

namespace topknot::cli {
namespace {

/// The subcommand that the words lead to. Throws ConfigError at a word that is none.
const CLI::App* find_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* one :
         at->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(one->get_name());
      if (names.back() == argv[i]) next = one;
    }
    if (names.empty()) break;
    if (next == nullptr)
      throw ConfigError("There is no command " + std::string(argv[i]) +
                        core::suggestion(argv[i], names) + " (see --help).");
    at = next;
  }
  return at;
}

/// The parser's words, as a sentence.
std::string sentence(const CLI::ParseError& error) {
  const std::string text = error.what();
  return text.ends_with('.') ? text : text + " (see --help).";
}

std::string unexpected(const CLI::App& command, const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (option->nonpositional() && !option->get_group().empty())
      names.push_back(option->get_name());
  const std::vector<std::string> words = app.remaining(/*recurse=*/true);
  const std::string word = words.empty() ? "" : words.front();
  return command.get_name() + " does not take " + word + core::suggestion(word, names) +
         " (see --help).";
}

void add_version(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command =
      app.add_subcommand("version", "Print the versions of topknot, compiler and torch");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON object");
  add_examples(*command, "version", "version --json");
  command->callback([json] {
#ifdef TOPKNOT_HAVE_TORCH
    const auto versions = describe_versions(train::torch_version());
#else
    const auto versions = describe_versions();
#endif
    if (*json) return fmt::print("{}\n", versions.dump(2));
    for (const auto& [what, value] : versions.items())
      fmt::print("{:<11}{}\n", what, value.get<std::string>());
  });
}

void add_help(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("help", "Print the page of a command");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *words, "Its name, of two words where it has two");
  add_examples(*command, "help train", "help bench allreduce");
  command->callback([&app, words] {
    std::vector<char*> argv = {nullptr};
    for (std::string& word : *words) argv.push_back(word.data());
    const CLI::App* found = find_command(app, static_cast<int>(argv.size()), argv.data());
    // The page of the last subcommand that was parsed would be this one's.
    fmt::print("{}",
               found->get_formatter()->make_help(found, "", CLI::AppFormatMode::Normal));
  });
}

void add_commands(CLI::App& app, int& exit_code) {
  lay_out_help(app);
  app.set_version_flag("-V,--version", TOPKNOT_VERSION)->description("The version");
  // Otherwise the name of a command would be one wherever it stands, as in `list data`.
  app.require_subcommand(0, 1);
  add_train(app, exit_code);
  add_compare(app, exit_code);
  add_report(app, exit_code);
  add_flight(app, exit_code);
  add_simulate(app, exit_code, workload_of_job);
  add_advise(app, exit_code, workload_of_job);
  add_list(app, exit_code);
  add_data(app, exit_code);
  add_bench(app, exit_code);
  add_version(app, exit_code);
  add_help(app, exit_code);
  add_completion(app, exit_code);
  add_examples(app, "train", "bench allreduce --workers 4 --n 1M --link 1gbit,50us");
}

int answer_completion(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> words(argv + 2, argv + argc);
  for (const std::string& word : completions(app, words)) fmt::print("{}\n", word);
  return kDone;
}

int run(int argc, char** argv) {
  CLI::App app("Sparse allreduce for data-parallel training over slow networks.",
               "topknot");
  int exit_code = kDone;
  add_commands(app, exit_code);
  const CLI::App* command = &app;
  try {
    if (argc > 1 && std::string_view(argv[1]) == "complete")
      return answer_completion(app, argc, argv);
    command = find_command(app, argc, argv);
    if (is_first_process())
      for (const std::string& unknown : unknown_variables()) warn(unknown);
    app.parse(argc, argv);
    const bool bare = app.get_subcommands().empty();
    if (bare ||
        (!command->get_subcommands({}).empty() && command->get_subcommands().empty()))
      fmt::print("{}", command->help());
    return exit_code;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ExtrasError&) {
    return complain(unexpected(*command, app), kBadUsage);
  } catch (const CLI::ParseError& error) {
    return complain(sentence(error), kBadUsage);
  } catch (...) {
    return report_error(std::current_exception());
  }
}

}  // namespace
}  // namespace topknot::cli

int main(int argc, char** argv) { return topknot::cli::run(argc, argv); }
