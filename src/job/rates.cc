// SPDX-License-Identifier: Apache-2.0
#include "job/rates.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "core/names.h"
#include "topknot/error.h"

namespace topknot::train {
namespace {

// "81+122+155", rising.
std::vector<double> epochs_of(std::string_view text) {
  std::vector<double> epochs;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    double epoch = 0;
    const auto parsed = std::from_chars(at, end, epoch);
    const bool good = parsed.ec == std::errc() && epoch >= 0 &&
                      (epochs.empty() || epoch > epochs.back()) &&
                      (parsed.ptr == end || (*parsed.ptr == '+' && parsed.ptr + 1 < end));
    if (!good)
      throw ConfigError("steps:at=" + std::string(text) +
                        " is not a list of rising epochs; write at=81+122+155.");
    epochs.push_back(epoch);
    at = parsed.ptr + (parsed.ptr == end ? 0 : 1);
  }
  return epochs;
}

}  // namespace

constexpr Rates::Entry Rates::kSchedules[] = {
    {"constant", Kind::constant, "the same from the warm-up on"},
    {"steps", Kind::steps, "falls when each of some epochs begins"},
    {"cosine", Kind::cosine, "half a cosine wave, to zero at the end of the run"},
    {"linear", Kind::linear, "in a line to zero at the end of the run"},
    {"decay", Kind::decay, "falls with every epoch"},
    {"plateau", Kind::plateau, "falls when some epochs have not been better"},
};

Rates::Rates(const Spec& schedule, double lr, double warmup, double warmup_from,
             double epochs)
    : lr_(lr),
      warmup_(warmup),
      warmup_from_(warmup_from),
      epochs_(epochs),
      best_(std::numeric_limits<double>::infinity()) {
  const auto* const found = std::ranges::find(kSchedules, schedule.name, &Entry::name);
  if (found == std::end(kSchedules))
    throw ConfigError("There is no schedule of the learning rate named " + schedule.name +
                      core::suggestion(schedule.name, names()) + ".");
  kind_ = found->kind;
  Params params = schedule.params;
  read(params);
  params.refuse_unknown(schedule.name);
  parameters_ = params.declared();
}

void Rates::read(Params& params) {
  switch (kind_) {
    case Kind::constant:
    case Kind::cosine:
    case Kind::linear:
      return;
    case Kind::steps:
      at_ = epochs_of(params.text("at", "", "epochs, as 81+122+155"));
      factor_ = params.number("factor", 0.1, 0, 1, "by which the rate falls");
      return;
    case Kind::decay:
      factor_ = params.number("factor", 0.99, 0, 1, "by which the rate falls each epoch");
      return;
    case Kind::plateau:
      factor_ = params.number("factor", 0.5, 0, 1, "by which the rate falls");
      patience_ =
          params.integer("patience", 3, 1, 1000000, "epochs without a better score");
      return;
  }
}

std::vector<std::string> Rates::names() {
  std::vector<std::string> names;
  for (const Entry& entry : kSchedules) names.emplace_back(entry.name);
  return names;
}

std::string_view Rates::summary(std::string_view name) {
  const auto* const found = std::ranges::find(kSchedules, name, &Entry::name);
  return found == std::end(kSchedules) ? "" : found->summary;
}

double Rates::at(double epoch) const {
  if (epoch < warmup_) return warmup_from_ + (lr_ - warmup_from_) * epoch / warmup_;
  return lr_ * shape(epoch);
}

double Rates::share(double epoch) const {
  return std::min((epoch - warmup_) / std::max(epochs_ - warmup_, 1e-9), 1.0);
}

double Rates::shape(double epoch) const {
  switch (kind_) {
    case Kind::constant:
      return 1;
    case Kind::decay:
      return std::pow(factor_, std::floor(epoch));
    case Kind::plateau:
      return reached_;
    case Kind::cosine:
      return 0.5 * (1 + std::cos(3.14159265358979323846 * share(epoch)));
    case Kind::linear:
      return 1 - share(epoch);
    case Kind::steps:
      break;
  }
  double product = 1;
  for (const double step : at_)
    if (epoch >= step) product *= factor_;
  return product;
}

void Rates::learn(double score) {
  if (kind_ != Kind::plateau) return;
  if (score < best_) {
    best_ = score;
    waited_ = 0;
  } else if (++waited_ >= patience_) {
    reached_ *= factor_;
    waited_ = 0;
  }
}

void Rates::visit_state(StateVisitor& visitor) {
  visitor.field("best", best_);
  visitor.field("reached", reached_);
  visitor.field("waited", waited_);
}

}  // namespace topknot::train
