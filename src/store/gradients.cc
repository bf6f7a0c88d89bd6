// SPDX-License-Identifier: Apache-2.0
#include "store/gradients.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <set>

#include "core/finite.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kRank = "/rank-";

struct Name {
  std::uint64_t step = 0;
  std::uint64_t rank = 0;
  std::string parameter;
};

/// Removes `word` and a number from the front of `text`.
bool take(std::string_view& text, std::string_view word, std::uint64_t& number) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

/// Only what gradient_name() would have made: no number has two names.
std::optional<Name> parse(std::string_view text) {
  Name name;
  std::string_view rest = text;
  if (!take(rest, kStep, name.step) || !take(rest, kRank, name.rank)) return std::nullopt;
  if (rest.size() < 2 || rest.front() != '/') return std::nullopt;
  name.parameter = rest.substr(1);
  if (gradient_name(name.step, name.rank, name.parameter) != text) return std::nullopt;
  return name;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string temporary(const std::string& path) { return path + ".recording"; }

bool is_there(Files& files, const std::string& path) {
  const std::vector<std::string> names = files.list(parent_of(path));
  return std::ranges::find(names, path.substr(path.rfind('/') + 1)) != names.end();
}

// A run that was killed while it wrote leaves such a file.
void remove_leftover(Files& files, const std::string& path) {
  if (is_there(files, path)) files.remove_file(path);
}

}  // namespace

std::string gradient_name(std::uint64_t step, std::uint64_t rank,
                          const std::string& parameter) {
  return std::string(kStep) + std::to_string(step) + std::string(kRank) +
         std::to_string(rank) + "/" + parameter;
}

void require_room_for(Files& files, const std::string& path) {
  if (path.empty() || path.ends_with('/'))
    throw ConfigError("'" + path + "' is no name for a file of gradients.");
  if (is_there(files, path))
    throw ConfigError("There is already something at " + path +
                      ": name another file for the gradients, or remove it.");
  remove_leftover(files, temporary(path));
  write_new(files, temporary(path), {});
  files.remove_file(temporary(path));
}

void write_gradients(Files& files, const std::string& path, const Container& gradients) {
  std::string header;
  const auto pieces = gradients.pieces(header);
  remove_leftover(files, temporary(path));
  try {
    write_new(files, temporary(path), pieces);
    files.rename(temporary(path), path);
  } catch (const StorageError&) {
    remove_leftover(files, temporary(path));
    throw;
  }
  files.sync_folder(parent_of(path));
}

RecordedGradients::RecordedGradients(Files& files, const std::string& path)
    : path_(path),
      container_(Container::parse(
          files.read(path, std::numeric_limits<std::uint64_t>::max()), path)) {
  find_steps_and_ranks();
  find_layout();
  check_all();
}

std::string RecordedGradients::about(std::string_view key) const {
  const auto found = container_.metadata.find(key);
  return found == container_.metadata.end() ? "" : found->second;
}

std::vector<float> RecordedGradients::flat(std::size_t step, std::size_t rank) const {
  std::vector<float> all;
  all.reserve(layout_.size());
  for (const TensorSlot& tensor : layout_.tensors) {
    const auto part = container_.values<float>(
        gradient_name(steps_.at(step), ranks_.at(rank), tensor.name));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void RecordedGradients::find_steps_and_ranks() {
  std::set<std::uint64_t> steps;
  std::set<std::uint64_t> ranks;
  for (const auto& [text, array] : container_.arrays()) {
    const std::optional<Name> name = parse(text);
    if (!name)
      refuse("it has an array called '" + text +
             "', and gradients are called step-10/rank-0/PARAMETER");
    if (array.dtype != Dtype::f32)
      refuse("'" + text + "' is " + std::string(name_of(array.dtype)) + " and not F32");
    steps.insert(name->step);
    ranks.insert(name->rank);
  }
  if (steps.empty()) refuse("it has no arrays");
  steps_.assign(steps.begin(), steps.end());
  ranks_.assign(ranks.begin(), ranks.end());
}

// The parameters are those of the first step and rank.
void RecordedGradients::find_layout() {
  const std::string prefix = gradient_name(steps_[0], ranks_[0], "");
  std::vector<std::pair<const std::byte*, std::string>> places;
  for (auto at = container_.arrays().lower_bound(prefix);
       at != container_.arrays().end() && at->first.starts_with(prefix); ++at)
    places.emplace_back(at->second.bytes.data(), at->first.substr(prefix.size()));
  std::ranges::sort(places);
  std::vector<std::string> order = lines_of(about(kParameterOrder));
  if (order.empty())
    for (const auto& [place, name] : places) order.push_back(name);
  if (std::set(order.begin(), order.end()).size() != places.size() ||
      order.size() != places.size())
    refuse("its list of parameters has " + std::to_string(order.size()) +
           " names where step " + std::to_string(steps_[0]) + " of rank " +
           std::to_string(ranks_[0]) + " has " + std::to_string(places.size()));
  for (const std::string& name : order) {
    const auto found = container_.arrays().find(prefix + name);
    if (found == container_.arrays().end())
      refuse("it has no '" + prefix + name + "', which is in its list of parameters");
    if (!found->second.bytes.empty())
      layout_.tensors.push_back({name, layout_.size(), found->second.shape});
  }
  if (layout_.size() == 0) refuse("its gradients have no coordinates");
}

void RecordedGradients::check_all() const {
  for (const std::uint64_t step : steps_)
    for (const std::uint64_t rank : ranks_)
      for (const TensorSlot& tensor : layout_.tensors) {
        const std::string name = gradient_name(step, rank, tensor.name);
        const auto found = container_.arrays().find(name);
        if (found == container_.arrays().end())
          refuse("it has no '" + name + "', though others have that parameter");
        if (found->second.shape != tensor.shape)
          refuse("'" + name + "' has another shape than at the first step and rank");
        if (!core::all_finite(container_.values<float>(name)))
          refuse("'" + name + "' has a value that is not finite");
      }
  std::size_t others = 0;
  for (const auto& [name, array] : container_.arrays())
    others += array.bytes.empty() ? 0 : 1;
  if (others != steps_.size() * ranks_.size() * layout_.tensors.size())
    refuse("its steps and ranks have not all the same parameters");
}

void RecordedGradients::refuse(const std::string& fault) const {
  throw DataError(path_ + " is not a file of recorded gradients: " + fault + ".");
}

}  // namespace topknot::store
