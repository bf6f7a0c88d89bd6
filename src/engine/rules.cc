// SPDX-License-Identifier: Apache-2.0
#include "engine/rules.h"

#include <charconv>
#include <map>
#include <utility>

#include "engine/recipe.h"
#include "topknot/error.h"

namespace topknot::engine {
namespace {

template <typename DensityOf>
std::vector<DensityGroup> by_density(const Layout& layout, DensityOf density_of) {
  std::map<double, std::vector<std::size_t>> sorted;
  for (std::size_t i = 0; i < layout.tensors.size(); ++i)
    sorted[density_of(layout.tensors[i])].push_back(i);
  std::vector<DensityGroup> groups;
  for (auto& [density, tensors] : sorted) groups.push_back({density, std::move(tensors)});
  return groups;
}

}  // namespace

// On a mismatch goes back to the last star and lets it stand for one more character.
bool matches(std::string_view glob, std::string_view name) {
  std::size_t g = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

Rule Rule::parse(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0)
    throw ConfigError(
        "A rule is written name=dense or name=0.05, with * in the name for any "
        "characters; \"" +
        std::string(text) + "\" is not.");
  Rule rule;
  rule.glob = text.substr(0, equals);
  const std::string_view value = text.substr(equals + 1);
  if (value == "dense") return rule;
  const char* const end = value.data() + value.size();
  const auto [last, error] = std::from_chars(value.data(), end, rule.density);
  if (error != std::errc{} || last != end || !(rule.density > 0 && rule.density <= 1))
    throw ConfigError("The rule for " + rule.glob + " asks for " + std::string(value) +
                      ", which is neither dense nor a density in (0, 1].");
  return rule;
}

Densities::Densities(const EngineOptions& options)
    : density_(options.density),
      dense_vectors_(options.dense_vectors),
      whole_(options.whole.begin(), options.whole.end()) {
  for (const std::string& rule : options.rules) rules_.push_back(Rule::parse(rule));
  if (Recipe::of(options).collective.name != "dense") return;
  rules_.clear();
  density_ = 1;
}

double Densities::by_rules(const TensorSlot& tensor) const {
  for (const Rule& rule : rules_)
    if (matches(rule.glob, tensor.name)) return rule.density;
  return dense_vectors_ && tensor.shape.size() <= 1 ? 1.0 : density_;
}

std::vector<DensityGroup> Densities::group(const Layout& layout) const {
  return by_density(layout, [&](const TensorSlot& tensor) {
    return whole_.contains(tensor.name) ? 1.0 : by_rules(tensor);
  });
}

std::vector<DensityGroup> Densities::group_for_buckets(const Layout& layout) const {
  return by_density(layout, [&](const TensorSlot& tensor) { return by_rules(tensor); });
}

std::vector<bool> Densities::sent_whole(const Layout& layout) const {
  std::vector<bool> whole(layout.tensors.size());
  for (const DensityGroup& group : group(layout))
    for (const std::size_t i : group.tensors) whole[i] = group.density >= 1;
  return whole;
}

}  // namespace topknot::engine
