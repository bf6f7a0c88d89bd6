// SPDX-License-Identifier: Apache-2.0
//
// What `advise --measure` has found, as a file:
//   {"link": {"bandwidth": ..., ...}, "rates": {"knot": {"per_coordinate": ..., ...}, ...}}
#pragma once

#include <string>

#include "sim/rates.h"

namespace topknot::cli {

/// Throws StorageError when it cannot be written.
void write_calibration(const std::string& path, const sim::Calibration& calibration);
/// Throws DataError, with the path, when it is no such file.
sim::Calibration read_calibration(const std::string& path);

}  // namespace topknot::cli
