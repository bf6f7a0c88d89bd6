// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as speech, in ways that the first byte of an input chooses between: a file of
// samples by each of its three names, or the two lists of a set, which has one file.
#include "data/speech.h"
#include "fuzz/files.h"

namespace {

using namespace topknot;
using namespace topknot::fuzz;

void check_samples(Files& files, const std::string& name,
                   std::span<const std::uint8_t> bytes) {
  const auto file = files.write(name, bytes);
  read_or_refuse([&] {
    const std::vector<float> samples = data::read_audio(file);
    require(2 * samples.size() <= bytes.size());
    for (const float v : samples) require(v >= -1 && v < 1);
  });
}

void check_lists(Files& files, std::span<const std::uint8_t> bytes) {
  const auto lists = parts(bytes, 2);
  files.write("etc/an4_test.fileids", lists[0]);
  files.write("etc/an4_test.transcription", lists[1]);
  files.write("wav/a.raw", std::vector<std::uint8_t>(8));
  read_or_refuse([&] {
    const auto speech = data::open_speech("an4", files.folder(), data::Split::test);
    for (std::size_t i = 0; i < speech->size(); ++i) {
      require(!speech->transcript(i).empty());
      require(data::letter_ids(speech->transcript(i)).size() ==
              speech->transcript(i).size());
      require(speech->samples(i).size() == 4);
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Files files;
  Input input({data, size});
  constexpr const char* kNames[] = {"x.wav", "x.sph", "x.raw"};
  const int way = input.byte() % 4;
  if (way < 3) {
    check_samples(files, kNames[way], input.left());
  } else {
    check_lists(files, input.left());
  }
  return 0;
}
