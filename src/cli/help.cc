// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/colour.h"
#include "cli/wrapped.h"

namespace topknot::cli {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kLeft = 27;  // the column that meanings begin in

std::string heading(const std::string& text) {
  return coloured(Colour::bold, text, stdout) + "\n";
}

std::string two_columns(const std::string& name, const std::string& meaning) {
  std::string line = "  " + name;
  if (line.size() + 2 > kLeft) {
    line += "\n" + std::string(kLeft, ' ');
  } else {
    line.resize(kLeft, ' ');
  }
  return line + wrapped(meaning, kColumns, kLeft) + "\n";
}

std::string path_of(const CLI::App* app) {
  return app->get_parent() == nullptr
             ? app->get_name()
             : path_of(app->get_parent()) + " " + app->get_name();
}

class Layout final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string /*name*/,
                        CLI::AppFormatMode mode) const override {
    std::string page =
        make_description(app) + make_usage(app, "") + make_positionals(app);
    std::vector<std::string> groups = app->get_groups();
    std::ranges::stable_partition(
        groups, [](const std::string& group) { return group != kAlso; });
    for (const std::string& group : groups) {
      const auto options = app->get_options([&](const CLI::Option* option) {
        return option->nonpositional() && option->get_group() == group;
      });
      if (!group.empty() && !options.empty()) page += make_group(group, false, options);
    }
    return page + make_subcommands(app, mode) + make_footer(app);
  }

  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), kColumns, 0) + "\n\n";
  }

  std::string make_usage(const CLI::App* app, std::string /*name*/) const override {
    std::string usage = coloured(Colour::bold, "Usage:", stdout) + " " + path_of(app);
    if (!app->get_subcommands({}).empty()) usage += " COMMAND";
    for (const CLI::Option* option : app->get_options())
      if (option->get_positional())
        usage += (option->get_required() ? " " : " [") + option->get_name() +
                 (option->get_required() ? "" : "]");
    return usage + " [OPTIONS]\n";
  }

  std::string make_positionals(const CLI::App* app) const override {
    std::string text;
    for (const CLI::Option* option : app->get_options())
      if (option->get_positional()) text += make_option(option, true);
    return text;
  }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = heading(group + ":");
    if (group == kAlso) {
      std::vector<std::string> names;
      for (const CLI::Option* option : options)
        names.push_back(make_option_name(option, false) + make_option_opts(option));
      return text + "  " + wrapped(names, kColumns, 2, "  ") + "\n";
    }
    for (const CLI::Option* option : options) text += make_option(option, is_positional);
    return text;
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string meaning = option->get_description();
    if (!option->get_default_str().empty())
      meaning += " (default " + option->get_default_str() + ")";
    const std::string value = is_positional ? "" : make_option_opts(option);
    return two_columns(make_option_name(option, is_positional) + value, meaning);
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_items_expected_max() == 0) return "";
    return " " + value_name(*option) + (option->get_expected_max() > 1 ? " ..." : "");
  }

  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode) const override {
    std::string text;
    for (const CLI::App* one : app->get_subcommands({}))
      if (!one->get_group().empty())
        text += two_columns(one->get_name(), one->get_description());
    return text.empty() ? "" : heading("Commands:") + text;
  }

  std::string make_footer(const CLI::App* app) const override {
    const std::string examples = app->get_footer();
    return examples.empty() ? "" : heading("Examples:") + examples;
  }
};

}  // namespace

std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::string name = type.substr(0, type.find(':'));
  if (name == "INT" || name == "UINT") return "N";
  return name == "FLOAT" ? "X" : name;
}

void add_examples(CLI::App& command, std::string_view first, std::string_view second) {
  command.footer(fmt::format("  topknot {}\n  topknot {}\n", first, second));
}

void lay_out_help(CLI::App& app) {
  app.formatter(std::make_shared<Layout>());
  app.set_help_flag("-h,--help", "This page");
}

}  // namespace topknot::cli
