// SPDX-License-Identifier: Apache-2.0
//
// MovieLens 20M: the NCF paper's three files, or ratings.csv (data/formats/rating_files.h).
#include "data/dataset.h"
#include "data/formats/rating_files.h"

namespace topknot::data::sets {
namespace {

Ratings open(const std::filesystem::path& folder) {
  return read_movielens(folder, "ml-20m", "ratings.csv");
}

}  // namespace

Dataset ml_20m() {
  return {.name = "ml-20m",
          .summary = "MovieLens: 20,000,263 ratings of 26,744 films by 138,493 people",
          .licence = "research only, not to be redistributed (README in it)",
          .folder = "ml-20m",
          .megabytes = 198.7,
          .packing = Packing::zip,
          .archives = {{"ml-20m.zip",
                        "https://files.grouplens.org/datasets/movielens/ml-20m.zip",
                        "md5:cd245b17a1ae2cc31bb14903e1204af3"}},
          .members = {"ml-20m/ratings.csv", "ml-20m/"},
          .marks = {"ratings.csv", "ml-20m.train.rating"},
          .reader = RatingsReader{open}};
}

}  // namespace topknot::data::sets
