// SPDX-License-Identifier: Apache-2.0
//
// Where data sets are looked for, by `topknot data` and by `train`:
//
//     --data DIR          alone, where it is given
//     $TOPKNOT_DATA
//     ./data
//     the user's cache    $XDG_CACHE_HOME/topknot, or ~/.cache/topknot
//     the system's        where the distribution's package of a set puts it
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "job/job.h"

namespace topknot::cli {

/// The folders that a set may be in, in that order, at last that of a package of the system;
/// `given` alone where it is not empty.
std::vector<std::filesystem::path> data_folders(const data::Dataset& set,
                                                const std::string& given);

/// The first of them in which the set is, either itself or in a folder of its name. Throws
/// DataError that says where it looked and how to get the set.
std::filesystem::path find_data(const data::Dataset& set, const std::string& given);

/// `job` with the folder that its data set is in, where that is found. Generated data are nowhere;
/// a name that is no set's is left to the trainer, who knows the kind that it needs.
train::Job with_data_found(train::Job job);
/// Throws DataError, as find_data() does, where the job's data set is not found.
void require_data(const train::Job& job);

/// Whether `text`, given for data, is the name of a set or of generated ones, and no folder.
bool names_a_set(const std::string& text);

}  // namespace topknot::cli
