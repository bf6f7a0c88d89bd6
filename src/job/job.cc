// SPDX-License-Identifier: Apache-2.0
#include "job/job.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <variant>

#include "core/names.h"
#include "core/text.h"
#include "job/models.h"
#include "job/optimizer.h"
#include "job/rates.h"
#include "topknot/catalog.h"
#include "topknot/error.h"
#include "topknot/params.h"
#include "topknot/schedule.h"

namespace topknot::train {
namespace {

constexpr double kAny = std::numeric_limits<double>::max();

using Member = std::variant<std::string Job::*, std::int64_t Job::*, double Job::*,
                            bool Job::*, std::vector<std::string> Job::*>;

constexpr const char* kParameters = ", with parameters";
const std::string kModels = core::listed(model_names(), ", ") + kParameters;
const std::string kOptimizers = core::listed(optimizer_names(), " or ") + kParameters;
const std::string kSchedules = core::listed(Rates::names(), " or ") + kParameters;

struct Entry {
  std::string_view name;
  Member member;
  double low;
  double high;
  std::string_view meaning;
};

// clang-format off
const Entry kEntries[] = {
    {"name", &Job::name, 0, 0, "what the run is called"},
    {"model", &Job::model, 0, 0, kModels},
    {"data", &Job::data, 0, 0, "a data set, see `topknot list data`, or generated:...; or the folder that it is in"},
    {"folder", &Job::folder, 0, 0, "of the data sets; empty: TOPKNOT_DATA, ./data, the user's cache, the system's"},
    {"pad", &Job::pad, 0, 64, "augmentation: pixels an image may be shifted by"},
    {"flip", &Job::flip, 0, 0, "augmentation: every other image is mirrored"},
    {"rotate", &Job::rotate, 0, 180, "augmentation: degrees an image may be turned by"},
    {"epochs", &Job::epochs, 1, 1e9, "passes over the training set"},
    {"steps", &Job::steps, 0, 1e15, "stop after so many; 0: after the epochs"},
    {"batch", &Job::batch, 1, 1 << 24, "samples of one worker in one pass forward"},
    {"accumulate", &Job::accumulate, 1, 1 << 16, "passes whose gradients make one step"},
    {"workers", &Job::workers, 1, 4096, "ranks; under mpirun its own number counts"},
    {"threads", &Job::threads, 1, 1024, "threads of one worker's arithmetic; under a launcher as many as the allocation grants, unless set"},
    {"seed", &Job::seed, 0, 1e15, "of every random draw"},
    {"timeout", &Job::timeout, 1e-3, 1e9, "seconds before a silent peer is given up"},
    {"checkpoint_timeout", &Job::checkpoint_timeout, 1e-3, 1e9, "the same while a checkpoint is written or read, for disks that are slow"},
    {"optimizer", &Job::optimizer, 0, 0, kOptimizers},
    {"lr", &Job::lr, 0, kAny, "learning rate, for the gradient's mean over all workers"},
    {"lr_schedule", &Job::lr_schedule, 0, 0, kSchedules},
    {"warmup", &Job::warmup, 0, 1e9, "epochs in which the learning rate rises to its value"},
    {"warmup_from", &Job::warmup_from, 0, kAny, "where it starts from"},
    {"weight_decay", &Job::weight_decay, 0, kAny, "joins the gradient (adamw: taken off the weights)"},
    {"decay_vectors", &Job::decay_vectors, 0, 0, "whether biases and norms decay too"},
    {"clip", &Job::clip, 0, kAny, "longest reduced gradient (L2); 0: any; with updates and dgc each worker's own"},
    {"scheme", &Job::scheme, 0, 0, "how the workers agree on a sum, see `topknot list`; auto: knot or dense, bucket by bucket, whichever is measured to be faster"},
    {"exchange", &Job::exchange, 0, 0, "updates, which each worker's own optimizer makes of its gradient; gradients, for an optimizer behind the exchange; auto: as the scheme has it, and gradients with a memory for them or an outer optimizer"},
    {"budget", &Job::budget, 0, 1, "bytes sent, as a share of dense's: decides local_steps, density and the bits of a value for an exchange of updates; 0: 1/64, unless density or local_steps is set"},
    {"settle", &Job::settle, 0, 0, "when one dense exchange settles all residuals: end, never, or every so many steps"},
    {"memory", &Job::memory, 0, 0, "instead of the scheme's"},
    {"compressor", &Job::compressor, 0, 0, "instead of the scheme's"},
    {"collective", &Job::collective, 0, 0, "instead of the scheme's"},
    {"density", &Job::density, 0, 1, "share of the coordinates that an exchange sends; 0: as budget has it, else 0.01"},
    {"density_schedule", &Job::schedule, 0, 0, "constant, dense or exponential, with parameters; empty: the scheme's"},
    {"rules", &Job::rules, 0, 0, "densities by parameter name, as in classifier.*=dense"},
    {"dense_vectors", &Job::dense_vectors, 0, 0, "whether biases and norms are sent whole"},
    {"bucket_mb", &Job::bucket_mb, 0, 1e6, "MiB of gradient in one bucket; 0: all of it"},
    {"local_steps", &Job::local_steps, 0, 1e9, "steps from one exchange to the next, which each worker takes alone; 1: an exchange on every step; 0: as budget has it, else 1"},
    {"outer", &Job::outer, 0, 0, "with exchange=gradients, the optimizer of the change that local steps have made, as optimizer; empty: DiLoCo's"},
    {"outer_lr", &Job::outer_lr, 0, kAny, "its learning rate; 1: all the way"},
    {"evaluate", &Job::evaluate, 0, 0, "whether the model is tried on the test set at all"},
    {"evaluate_every", &Job::evaluate_every, 0, 1e9, "epochs; 0: only at the end"},
    {"evaluate_samples", &Job::evaluate_samples, 0, 1e15, "of the test set, the first so many; 0: all of it"},
    {"checkpoint_every", &Job::checkpoint_every, 0, 1e15, "steps; 0: at the end of each epoch"},
    {"check_every", &Job::check_every, 0, 1e15, "steps after which all ranks must have the same weights; 0: never"},
    {"nonfinite", &Job::nonfinite, 0, 0, "abort or skip: what a step that is not finite does"},
    {"skip_limit", &Job::skip_limit, 0, 1, "largest share of a run's steps that may be skipped"},
};
// clang-format on

struct Exception {
  std::string_view key;
  std::string_view reason;
};

// Every key that is not here is compared.
constexpr Exception kMayDiffer[] = {
    {"folder", "hosts keep their files in different places; the data are compared"},
    {"threads", "hosts have different numbers of cores"},
};

std::string_view may_differ(std::string_view key) {
  for (const Exception& one : kMayDiffer)
    if (one.key == key) return one.reason;
  return "";
}

/// The key whose meaning begins with the words of `wanted`, as lr's does with those of
/// learning_rate; empty when there is none.
std::string key_that_means(std::string_view wanted) {
  std::string words(wanted);
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == '_' || c == '-'; }, ' ');
  for (const Entry& entry : kEntries)
    if (wanted.size() > 2 && entry.meaning.starts_with(words))
      return std::string(entry.name);
  return "";
}

const Entry& find(std::string_view key) {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) {
    if (core::same_name(entry.name, key)) return entry;
    names.emplace_back(entry.name);
  }
  const std::string meant = key_that_means(key);
  throw ConfigError(
      "There is no key " + std::string(key) + " in a job" +
      (meant.empty() ? core::suggestion(key, names) : "; it is called " + meant) +
      " (`topknot train --keys` tells of each).");
}

std::string range(const Entry& entry) {
  if (std::holds_alternative<bool Job::*>(entry.member)) return "true or false";
  if (std::holds_alternative<std::vector<std::string> Job::*>(entry.member))
    return "a list";
  if (std::holds_alternative<std::string Job::*>(entry.member)) return "text";
  const std::string kind = std::holds_alternative<std::int64_t Job::*>(entry.member)
                               ? "a whole number"
                               : "a number";
  if (entry.high == kAny) return kind + " from " + core::shortest(entry.low);
  return kind + " from " + core::shortest(entry.low) + " to " +
         core::shortest(entry.high);
}

[[noreturn]] void refuse(const Entry& entry, std::string_view value) {
  throw ConfigError("The key " + std::string(entry.name) + " cannot be " +
                    (value.empty() ? "empty" : std::string(value)) + "; it is " +
                    range(entry) + ": " + std::string(entry.meaning) + ".");
}

template <typename Number>
Number number(const Entry& entry, std::string_view value) {
  Number parsed{};
  const auto end = std::from_chars(value.data(), value.data() + value.size(), parsed);
  const bool whole = end.ec == std::errc() && end.ptr == value.data() + value.size();
  if (!whole || !(static_cast<double>(parsed) >= entry.low) ||
      !(static_cast<double>(parsed) <= entry.high))
    refuse(entry, value);
  return parsed;
}

bool truth(const Entry& entry, std::string_view value) {
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  refuse(entry, value);
}

std::vector<std::string> words(std::string_view value) {
  std::istringstream stream{std::string(value)};
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

}  // namespace

std::vector<Key> keys() {
  static const std::vector<std::string> ranges = [] {
    std::vector<std::string> all;
    for (const Entry& entry : kEntries) all.push_back(range(entry));
    return all;
  }();
  std::vector<Key> all;
  for (const Entry& entry : kEntries)
    all.push_back(
        {entry.name, ranges[all.size()], entry.meaning, may_differ(entry.name)});
  return all;
}

void set(Job& job, std::string_view key, std::string_view value) {
  const bool folder = key == "data" && value.find('/') < value.find(':');
  const Entry& entry = find(folder ? "folder" : key);
  if (const auto* member = std::get_if<std::string Job::*>(&entry.member))
    job.*(*member) = std::string(value);
  if (const auto* member = std::get_if<std::int64_t Job::*>(&entry.member))
    job.*(*member) = number<std::int64_t>(entry, value);
  if (const auto* member = std::get_if<double Job::*>(&entry.member))
    job.*(*member) = number<double>(entry, value);
  if (const auto* member = std::get_if<bool Job::*>(&entry.member))
    job.*(*member) = truth(entry, value);
  if (const auto* member = std::get_if<std::vector<std::string> Job::*>(&entry.member))
    job.*(*member) = words(value);
}

std::string get(const Job& job, std::string_view key) {
  const Entry& entry = find(key);
  if (const auto* member = std::get_if<std::string Job::*>(&entry.member))
    return job.*(*member);
  if (const auto* member = std::get_if<std::int64_t Job::*>(&entry.member))
    return std::to_string(job.*(*member));
  if (const auto* member = std::get_if<double Job::*>(&entry.member))
    return core::shortest(job.*(*member));
  if (const auto* member = std::get_if<bool Job::*>(&entry.member))
    return job.*(*member) ? "true" : "false";
  std::string list;
  for (const std::string& word :
       job.*std::get<std::vector<std::string> Job::*>(entry.member))
    list += (list.empty() ? "" : " ") + word;
  return list;
}

}  // namespace topknot::train
