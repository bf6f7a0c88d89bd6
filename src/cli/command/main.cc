// SPDX-License-Identifier: Apache-2.0
//
// The command: parses, calls, prints.
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/report.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::cli {
namespace {

std::string all_names(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

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
      throw ConfigError("There is no command " + std::string(argv[i]) + "; nearest is " +
                        nearest(argv[i], names) + " (of " + all_names(names) + ").");
    at = next;
  }
  return at;
}

std::string unexpected(const CLI::App& command, const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    names.push_back(option->get_name());
  const std::vector<std::string> words = app.remaining(/*recurse=*/true);
  const std::string word = words.empty() ? "" : words.front();
  return command.get_name() + " does not take " + word + "; nearest is " +
         nearest(word, names) + " (see --help).";
}

int run(int argc, char** argv) {
  CLI::App app("Sparse allreduce for data-parallel training over slow networks.",
               "topknot");
  app.set_version_flag("--version", TOPKNOT_VERSION);
  app.require_subcommand(1);
  int exit_code = kDone;
  add_list(app, exit_code);
  add_data(app, exit_code);
  add_train(app, exit_code);
  add_bench(app, exit_code);
  const CLI::App* command = &app;
  try {
    command = find_command(app, argc, argv);
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ExtrasError&) {
    return complain(unexpected(*command, app), kBadUsage);
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), kBadUsage);
  } catch (...) {
    return report(std::current_exception());
  }
}

}  // namespace
}  // namespace topknot::cli

int main(int argc, char** argv) { return topknot::cli::run(argc, argv); }
