// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/speech.h"
#include "topknot/params.h"

namespace topknot::data {

std::unique_ptr<Speech> make_speech(Split split, Params& params);

}  // namespace topknot::data
