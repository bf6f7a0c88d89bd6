// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/ratings.h"

namespace topknot::data {

/// Reads the NCF paper's files, whose fields are separated by tabs: NAME.train.rating ("user
/// item rating ..."), NAME.test.rating, a line for each user in order, and NAME.test.negative
/// ("(user,item) negative ..."). Where NAME.item_to_movieid.txt exists, it lists all items.
Ratings read_ncf_files(const std::filesystem::path& folder, const std::string& name);

/// Reads MovieLens' "user::item::rating::time" (.dat), or "user,item,rating,time" below a line
/// of names (.csv). Where movies.dat or movies.csv is beside it, that must list every item.
std::vector<RawRating> read_raw_ratings(const std::filesystem::path& file);

/// The three files of read_ncf_files where `folder` has them; else `raw_file` in it, with the
/// latest rating of each user held out.
Ratings read_movielens(const std::filesystem::path& folder, const std::string& name,
                       const std::string& raw_file);

}  // namespace topknot::data
