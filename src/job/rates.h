// SPDX-License-Identifier: Apache-2.0
//
// The learning rate over time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topknot/params.h"
#include "topknot/state.h"

namespace topknot::train {

/// Rises linearly from `warmup_from` over `warmup` epochs, then:
///
///   constant
///   steps:at=81+122+155,factor=0.1   times `factor` when each of these epochs begins
///   cosine                           half a cosine wave, to zero at the end of the run
///   linear                           linearly to zero at the end of the run
///   decay:factor=0.99                times `factor` with every epoch
///   plateau:factor=0.5,patience=3    times `factor` when `patience` epochs in a row have
///                                    not improved on the best score
class Rates {
 public:
  /// Throws ConfigError for an unknown schedule or parameter.
  Rates(const Spec& schedule, double lr, double warmup, double warmup_from,
        double epochs);

  /// The schedules' names.
  static std::vector<std::string> names();
  /// What one of them does in a line.
  static std::string_view summary(std::string_view name);
  /// The parameters that this one reads.
  const std::vector<Params::Declaration>& parameters() const { return parameters_; }

  /// The rate at `epoch` epochs, parts of one included, from the start.
  double at(double epoch) const;

  /// Takes the score of an evaluation; lower is better.
  void learn(double score);

  /// The state of a plateau.
  void visit_state(StateVisitor& visitor);

 private:
  enum class Kind { constant, steps, cosine, linear, decay, plateau };
  struct Entry {
    std::string_view name;
    Kind kind;
    std::string_view summary;
  };
  static const Entry kSchedules[];

  void read(Params& params);
  double shape(double epoch) const;
  double share(double epoch) const;  // of the time after the warm-up that has passed

  Kind kind_ = Kind::constant;
  const double lr_;
  const double warmup_;
  const double warmup_from_;
  const double epochs_;
  double factor_ = 1;
  std::vector<double> at_;
  std::int64_t patience_ = 0;
  std::vector<Params::Declaration> parameters_;

  double best_;
  double reached_ = 1;       // the product of the plateau's factors so far
  std::int64_t waited_ = 0;  // epochs since the best
};

}  // namespace topknot::train
