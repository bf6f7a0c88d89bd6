// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/job_file.h"
#include "data/dataset.h"
#include "job/job.h"
#include "job/models.h"
#include "job/optimizer.h"
#include "topknot/catalog.h"
#include "topknot/error.h"

namespace topknot::cli {
namespace {

using Words = std::vector<std::string>;

template <typename Entries>
Words names_of(const Entries& entries) {
  Words names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

Words keys() {
  Words all;
  for (const train::Key& key : train::keys()) all.push_back(std::string(key.name) + "=");
  return all;
}

struct ValueType {
  std::string_view name;
  Words (*values)();
};

// An option is of one of these when its type_name() says so.
constexpr ValueType kTypes[] = {
    {"JOB", [] { return names_of(list_jobs(jobs_folder())); }},
    {"SCHEME", [] { return names_of(schemes()); }},
    {"COLLECTIVE", [] { return names_of(collectives()); }},
    {"COMPRESSOR", [] { return names_of(compressors()); }},
    {"MEMORY", [] { return names_of(memories()); }},
    {"MODEL", [] { return train::model_names(); }},
    {"OPTIMIZER", [] { return train::optimizer_names(); }},
    {"DATASET", [] { return names_of(data::datasets()); }},
    {"KEY=VALUE", keys},
};

/// The words of a value that is called abort|skip.
Words choices(const std::string& name) {
  Words all;
  if (name.find('|') == std::string::npos) return all;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find('|', start), name.size());
    all.push_back(name.substr(start, end - start));
    start = end + 1;
  }
  return all;
}

Words values_of(const CLI::Option* option) {
  const std::string name = value_name(*option);
  for (const ValueType& one : kTypes)
    if (one.name == name) return one.values();
  return choices(name);
}

bool takes_values(const CLI::Option* option) {
  return option->get_items_expected_max() != 0;
}

const CLI::Option* find_option(const CLI::App& command, const std::string& word) {
  for (const CLI::Option* option : command.get_options())
    if (option->nonpositional() && option->check_name(word)) return option;
  return nullptr;
}

Words all_options(const CLI::App& command) {
  Words names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// What the words before the last one have led to.
struct Place {
  const CLI::App* command;
  const CLI::Option* open = nullptr;  // an option that waits for a value
  bool may_end = true;                // the option has a value already
  std::size_t positionals = 0;        // that were given
};

Place walk(const CLI::App& app, const Words& words) {
  Place at{&app};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.starts_with("-")) {
      const CLI::Option* const option = find_option(*at.command, word);
      at.open = option != nullptr && takes_values(option) ? option : nullptr;
      at.may_end = false;
      continue;
    }
    if (at.open != nullptr) {
      at.may_end = true;
      if (at.open->get_expected_max() <= 1) at.open = nullptr;
      continue;
    }
    const auto subcommands = at.command->get_subcommands(
        [&](const CLI::App* one) { return one->get_name() == word; });
    if (subcommands.empty()) {
      ++at.positionals;
    } else {
      at = {subcommands.front()};
    }
  }
  return at;
}

Words candidates(const Place& at, const std::string& last) {
  if (at.open != nullptr && !(at.may_end && last.starts_with("-")))
    return values_of(at.open);
  if (last.starts_with("-")) return all_options(*at.command);
  Words words;
  for (const CLI::App* one : at.command->get_subcommands({}))
    if (!one->get_group().empty()) words.push_back(one->get_name());
  std::size_t number = 0;
  for (const CLI::Option* option : at.command->get_options()) {
    if (!option->get_positional() || number++ != at.positionals) continue;
    const Words values = values_of(option);
    words.insert(words.end(), values.begin(), values.end());
  }
  return words;
}

constexpr const char* kBash =
    R"(# topknot completion bash >~/.local/share/bash-completion/completions/topknot
_topknot() {
  local word
  COMPREPLY=()
  while IFS= read -r word; do
    [[ $word == *= ]] && compopt -o nospace
    COMPREPLY+=("$word")
  done < <("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _topknot topknot
)";

constexpr const char* kZsh = R"(#compdef topknot
# topknot completion zsh >~/.zfunc/_topknot, with ~/.zfunc in $fpath
_topknot() {
  local -a found
  found=("${(@f)$("${words[1]}" complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  found=("${(@)found:#}")
  if (( $#found )); then compadd -- "${found[@]}"; else _files; fi
}
compdef _topknot topknot
)";

constexpr const char* kFish =
    R"(# topknot completion fish >~/.config/fish/completions/topknot.fish
function __topknot_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] complete $words[2..-1] 2>/dev/null
end
complete -c topknot -a '(__topknot_complete)'
)";

}  // namespace

Words completions(const CLI::App& app, const Words& words) {
  const std::string last = words.empty() ? "" : words.back();
  Words found;
  for (const std::string& word : candidates(walk(app, words), last))
    if (word.starts_with(last)) found.push_back(word);
  return found;
}

void add_completion(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand(
      "completion", "Print the script that completes command lines in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("bash|zsh|fish");
  add_examples(*command,
               "completion bash >~/.local/share/bash-completion/completions/topknot",
               "completion fish >~/.config/fish/completions/topknot.fish");
  command->callback([shell] {
    if (*shell == "bash") return fmt::print("{}", kBash);
    if (*shell == "zsh") return fmt::print("{}", kZsh);
    if (*shell == "fish") return fmt::print("{}", kFish);
    throw ConfigError("There is no completion for " + *shell +
                      "; there are bash, zsh and fish.");
  });
}

}  // namespace topknot::cli
