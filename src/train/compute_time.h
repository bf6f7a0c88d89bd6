// SPDX-License-Identifier: Apache-2.0
//
// This header includes no torch, so the command need not.
#pragma once

#include "job/job.h"
#include "topknot/transport.h"

namespace topknot::train {

/// The seconds that forward and backward of one step take on this machine, on this rank alone. Makes
/// the job's model and reads its data, and sends nothing: the other ends of `link` need nobody.
/// Throws as train() does.
double compute_time(Transport& link, const Job& job);

}  // namespace topknot::train
