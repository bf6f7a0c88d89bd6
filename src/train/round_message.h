// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "train/train.h"
#include "transports/control_channel.h"

namespace topknot::train {

/// What the ranks agree on beside the steps themselves.
struct RoundAgreement {
  bool stopping = false;    ///< any rank has been asked to leave
  bool is_written = false;  ///< all ranks have come to the end of the save under way
};

/// One small message round after every exchange: the ranks tell each other the losses, whether
/// their steps were finite, the bytes they sent, and `own`. Makes loss, finite and sent_bytes of
/// the steps those of all ranks.
RoundAgreement share_round(ControlChannel& control, std::span<StepRecord> round,
                           RoundAgreement own);

}  // namespace topknot::train
