// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as ratings, in ways that the first byte of an input chooses between: raw ones
// with and without a list of films, in both formats, or the three files of the NCF paper
// with and without a list of items. The input says more raw ratings than it has lines: each
// is made for a few users, so that a set of enough items is not out of reach.
#include "data/formats/rating_files.h"
#include "fuzz/files.h"

namespace {

using namespace topknot;
using namespace topknot::fuzz;

void check(const data::Ratings& ratings) {
  require(ratings.users() > 0 && ratings.items() > 0);
  core::Random random(1);
  for (std::uint32_t user = 0; user < std::min(ratings.users(), 4U); ++user) {
    require(ratings.held_out(user) < ratings.items());
    std::size_t rated = 0;
    for (const auto& pair : ratings.train()) rated += pair.user == user ? 1 : 0;
    for (const std::uint32_t item : ratings.negatives(user))
      require(item < ratings.items());
    if (rated >= ratings.items()) continue;
    require(!ratings.rated(user, ratings.draw_negative(user, random)));
  }
}

void check_raw(Files& files, bool csv, bool listed, std::span<const std::uint8_t> bytes) {
  const auto texts = parts(bytes, 2);
  const std::string end = csv ? ".csv" : ".dat";
  if (listed) {
    files.write("movies" + end, texts[1]);
  } else {
    files.remove("movies" + end);
  }
  const auto file = files.write("ratings" + end, texts[0]);
  read_or_refuse([&] {
    std::vector<data::RawRating> raw = data::read_raw_ratings(file);
    require(!raw.empty());
    const std::size_t said = raw.size();
    for (std::uint32_t i = 0; i < 240; ++i) {
      const data::RawRating one = raw[i % said];
      raw.push_back({(1U << 28) + i % 2, one.item + (1U << 28) + i, one.time});
    }
    check(data::leave_one_out(raw, 1, file));
  });
}

void check_ncf(Files& files, bool listed, std::span<const std::uint8_t> bytes) {
  const auto texts = parts(bytes, 4);
  files.write("ncf/ml-1m.test.rating", texts[0]);
  files.write("ncf/ml-1m.test.negative", texts[1]);
  files.write("ncf/ml-1m.train.rating", texts[2]);
  if (listed) {
    files.write("ncf/ml-1m.item_to_movieid.txt", texts[3]);
  } else {
    files.remove("ncf/ml-1m.item_to_movieid.txt");
  }
  read_or_refuse([&] { check(data::read_ncf_files(files.folder() / "ncf", "ml-1m")); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Files files;
  Input input({data, size});
  const int way = input.byte() % 6;
  if (way < 4) {
    check_raw(files, way / 2 == 0, way % 2 == 0, input.left());
  } else {
    check_ncf(files, way == 4, input.left());
  }
  return 0;
}
