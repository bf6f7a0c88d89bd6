// SPDX-License-Identifier: Apache-2.0
#include "job/auto_scheme.h"

#include <sstream>

#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::train {

bool is_auto(const Job& job) { return Spec::parse(job.scheme).name == kAutoScheme; }

Job dense_side(Job job) {
  const Job defaults;
  job.scheme = "dense";
  job.memory = defaults.memory;
  job.compressor = defaults.compressor;
  job.collective = defaults.collective;
  job.schedule = defaults.schedule;
  job.exchange = defaults.exchange;
  job.outer = defaults.outer;
  job.density = defaults.density;
  job.budget = defaults.budget;
  job.local_steps = defaults.local_steps;
  job.outer_lr = defaults.outer_lr;
  return job;
}

Job sparse_side(Job job) {
  if (!job.collective.empty() && parse_collective(job.collective).name == "dense")
    throw ConfigError(
        "scheme=auto chooses between dense and a sparse exchange, and the collective "
        "dense "
        "leaves no choice: set scheme=dense, or leave the collective out.");
  Spec scheme = Spec::parse(job.scheme);
  scheme.name = "knot";
  job.scheme = scheme.str();
  return job;
}

std::string AutoChoice::text() const {
  std::string text = sparse ? "sparse" : "dense";
  for (const std::string& name : whole) text += "\n" + name;
  return text;
}

AutoChoice AutoChoice::parse(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  if (line != "sparse" && line != "dense")
    throw ConfigError(
        "The checkpoint has a decision of scheme=auto that is neither sparse nor dense; "
        "name the scheme.");
  AutoChoice choice{.sparse = line == "sparse", .whole = {}};
  while (std::getline(lines, line)) choice.whole.push_back(line);
  return choice;
}

Job AutoChoice::apply(const Job& job) const {
  Job chosen = sparse ? sparse_side(job) : dense_side(job);
  chosen.whole = whole;
  chosen.auto_choice = text();
  return chosen;
}

}  // namespace topknot::train
