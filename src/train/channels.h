// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace topknot::train {

/// The channels of a run's link, one for each part of the trainer that sends.
enum Channel {
  kEngineChannel,
  kControlChannel,
  kStoreChannel,
  kRecorderChannel,
  kComparisonChannel,
  kMomentsChannel,
  kTrialChannel,
  kChoiceChannel,
  kDecidedChannel,
};

}  // namespace topknot::train
