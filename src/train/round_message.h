// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "train/train.h"
#include "transports/control_channel.h"

namespace topknot::train {

/// One small message round after every exchange: the ranks tell each other the losses, whether
/// their steps were finite, the bytes they sent, and whether they have been asked to leave.
/// Makes loss, finite and sent_bytes of the steps those of all ranks. Returns whether any rank
/// has been asked to leave.
bool share_round(ControlChannel& control, std::span<StepRecord> round,
                 bool asked_to_stop);

}  // namespace topknot::train
