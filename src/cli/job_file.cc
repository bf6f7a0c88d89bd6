// SPDX-License-Identifier: Apache-2.0
#include "cli/job_file.h"

#include <fmt/core.h>

#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "core/names.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::cli {
namespace {

namespace fs = std::filesystem;

// Where the tests and `topknot data` look for data sets; a job is told by --data.
constexpr std::string_view kNotFromEnvironment = "data";

// Variables that are not keys: of ./run, of the builds and of the tests.
constexpr const char* kOtherVariables[] = {"TOPKNOT_DATA", "TOPKNOT_INTERFACE",
                                           "TOPKNOT_SETUP", "TOPKNOT_TORCH"};

std::string variable_of(const train::Key& key) {
  std::string variable = "TOPKNOT_";
  for (const char one : key.name)
    variable += static_cast<char>(std::toupper(static_cast<unsigned char>(one)));
  return variable;
}

std::vector<std::string> without_prefix(std::vector<std::string> variables) {
  for (std::string& name : variables) name.erase(0, std::string_view("TOPKNOT_").size());
  return variables;
}

std::string place(const fs::path& file, const toml::source_region& source) {
  return fmt::format("{}:{}", file.string(), source.begin.line);
}

std::string list_text(const toml::array& list, const std::string& where,
                      std::string_view key) {
  std::string words;
  for (const toml::node& node : list) {
    const auto word = node.value_exact<std::string>();
    if (!word || word->empty() || word->find(' ') != std::string::npos)
      throw ConfigError(
          fmt::format("{}: The list {} has an entry that is not a word; write it as in "
                      "[\"classifier.*=dense\"].",
                      where, key));
    words += (words.empty() ? "" : " ") + *word;
  }
  return words;
}

/// A value as train::set() takes it.
std::string value_text(const toml::node& node, const std::string& where,
                       std::string_view key) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point())
    return fmt::format("{}", number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  if (const auto* list = node.as_array()) return list_text(*list, where, key);
  if (node.is_table())
    throw ConfigError(fmt::format(
        "{}: {} is a table, and a job has none; write its keys one by one, without [{}].",
        where, key, key));
  throw ConfigError(fmt::format(
      "{}: {} is a date or a time, and no key of a job is; write a number or a text.",
      where, key));
}

toml::table parse(const fs::path& file) {
  std::ifstream stream(file);
  if (!stream)
    throw ConfigError(fmt::format("The job {} cannot be read.", file.string()));
  try {
    return toml::parse(stream, file.string());
  } catch (const toml::parse_error& error) {
    std::string why(error.description());
    std::replace(why.begin(), why.end(), '\n', ' ');
    throw ConfigError(
        fmt::format("{}: This is not TOML: {}.", place(file, error.source()), why));
  }
}

std::string first_comment(const fs::path& file) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] != '#') break;
    const std::size_t start = line.find_first_not_of("# ");
    if (start == std::string::npos || line.find("SPDX-") != std::string::npos) continue;
    return line.substr(start);
  }
  return "";
}

}  // namespace

fs::path jobs_folder() {
  std::error_code none;
  if (fs::is_directory(TOPKNOT_JOBS_SOURCE, none)) return TOPKNOT_JOBS_SOURCE;
  const fs::path command = fs::read_symlink("/proc/self/exe", none);
  return (command.parent_path() / TOPKNOT_JOBS_INSTALLED).lexically_normal();
}

std::vector<NamedJob> list_jobs(const fs::path& folder) {
  std::vector<NamedJob> jobs;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none))
    if (entry.path().extension() == ".toml")
      jobs.push_back({entry.path().stem().string(), first_comment(entry.path())});
  std::sort(jobs.begin(), jobs.end(),
            [](const NamedJob& a, const NamedJob& b) { return a.name < b.name; });
  return jobs;
}

fs::path find_job(std::string_view job, const fs::path& folder) {
  const fs::path path(job);
  std::error_code none;
  if (path.has_parent_path() || path.extension() == ".toml") {
    if (fs::is_regular_file(path, none)) return path;
    throw ConfigError(fmt::format(
        "There is no file {}; JOB is a TOML file or a name of `topknot train --list`.",
        job));
  }
  fs::path named = folder / (std::string(job) + ".toml");
  if (fs::is_regular_file(named, none)) return named;
  std::vector<std::string> names;
  for (const NamedJob& one : list_jobs(folder)) names.push_back(one.name);
  if (names.empty())
    throw ConfigError(fmt::format("There is no job {}: the folder {} has none at all.",
                                  job, folder.string()));
  throw ConfigError(
      fmt::format("There is no job {}{} (`topknot list jobs` tells of each, or give the "
                  "path of a file).",
                  job, core::suggestion(job, names)));
}

void read_job(const fs::path& file, train::Job& job) {
  job.name = file.stem().string();
  for (const auto& [key, node] : parse(file)) {
    const std::string where = place(file, key.source());
    const std::string value = value_text(node, where, key.str());
    try {
      train::set(job, key.str(), value);
    } catch (const ConfigError& error) {
      throw ConfigError(where + ": " + error.what());
    }
  }
}

std::vector<std::string> unknown_variables() {
  std::vector<std::string> known(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const train::Key& key : train::keys()) known.push_back(variable_of(key));
  std::vector<std::string> sentences;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("TOPKNOT_") || std::ranges::count(known, name) > 0) continue;
    const auto near = core::nearest(name.substr(8), without_prefix(known));
    sentences.push_back(fmt::format(
        "The environment has {}, which means nothing to topknot{}.", name,
        near.empty()
            ? "; keys of a job are set by TOPKNOT_LR, TOPKNOT_EPOCHS and the like"
            : "; nearest is TOPKNOT_" + near.front()));
  }
  return sentences;
}

void read_environment(train::Job& job) {
  for (const train::Key& key : train::keys()) {
    if (key.name == kNotFromEnvironment) continue;
    const std::string variable = variable_of(key);
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr) continue;
    try {
      train::set(job, key.name, value);
    } catch (const ConfigError& error) {
      throw ConfigError("In the environment, " + variable + ": " + error.what());
    }
  }
}

void apply_setting(train::Job& job, std::string_view setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw ConfigError(fmt::format(
        "--set takes key=value, and {} is none; JOB comes before --set.", setting));
  train::set(job, setting.substr(0, equals), setting.substr(equals + 1));
}

}  // namespace topknot::cli
