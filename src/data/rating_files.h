// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/ratings.h"
#include "topknot/params.h"

namespace topknot::data {

/// NAME.train.rating ("user item rating ..."), NAME.test.rating, one line for each user in
/// order, and NAME.test.negative ("(user,item) negative ..."), parted by tabs. Where
/// NAME.item_to_movieid.txt is there, items are those that it lists.
Ratings read_ncf_files(const std::filesystem::path& folder, const std::string& name);

/// MovieLens: "user::item::rating::time" (.dat), or "user,item,rating,time" below a line of
/// names (.csv). Items must be in movies.dat or movies.csv beside it, where that is there.
std::vector<RawRating> read_raw_ratings(const std::filesystem::path& file);

/// Users and items have eight tastes each, some items are liked by all, and a user rates
/// those that please most of a random choice.
std::vector<RawRating> make_ratings(Params& params);

}  // namespace topknot::data
