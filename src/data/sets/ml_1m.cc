// SPDX-License-Identifier: Apache-2.0
//
// MovieLens 1M: the NCF paper's three files, or ratings.dat (data/formats/rating_files.h).
#include "data/dataset.h"
#include "data/formats/rating_files.h"

namespace topknot::data::sets {
namespace {

Ratings open(const std::filesystem::path& folder) {
  return read_movielens(folder, "ml-1m", "ratings.dat");
}

}  // namespace

Dataset ml_1m() {
  return {.name = "ml-1m",
          .summary = "MovieLens: 1,000,209 ratings of 3,706 films by 6,040 people",
          .licence = "research only, not to be redistributed (README in it)",
          .folder = "ml-1m",
          .megabytes = 5.9,
          .packing = Packing::zip,
          .archives = {{"ml-1m.zip",
                        "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
                        "md5:c4d9eecfca2ab87c1945afe126590906"}},
          .members = {"ml-1m/ratings.dat", "ml-1m/"},
          .marks = {"ratings.dat", "ml-1m.train.rating"},
          .reader = RatingsReader{open}};
}

}  // namespace topknot::data::sets
