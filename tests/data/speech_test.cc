// SPDX-License-Identifier: Apache-2.0
#include "data/speech.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "data/refusals.h"
#include "data/write_sets.h"
#include "refusal.h"

namespace topknot::data {
namespace {

class An4 : public ::testing::Test {
 protected:
  void SetUp() override { write_an4(path(), 6, 3); }
  const std::filesystem::path& path() const { return folder_.path(); }
  auto open(Split split = Split::train) const {
    return open_speech("an4", path(), split);
  }
  std::filesystem::path said() const { return path() / "etc/an4_train.transcription"; }

  TemporaryFolder folder_;
};

TEST_F(An4, GivesBackWhatWasWrittenInEveryFormat) {
  for (const Split split : {Split::train, Split::test}) {
    const bool training = split == Split::train;
    const auto speech = open(split);
    const auto wanted =
        open_speech(training ? "generated:size=24" : "generated:size=12", {}, split);
    ASSERT_EQ(speech->size(), training ? 6U : 3U);
    for (std::size_t i = 0; i < speech->size(); ++i) {
      EXPECT_EQ(speech->transcript(i), wanted->transcript(i));
      EXPECT_EQ(speech->samples(i), wanted->samples(i)) << i;
    }
  }
}

TEST_F(An4, RefusesATranscriptWithoutItsFile) {
  std::filesystem::remove(path() / "wav/an4_clstk/abcd/an4-abcd-b.sph");
  expect_refusal([&] { open(); }, "an4-abcd-b: there is a transcript but no .wav");
}

TEST_F(An4, RefusesListsThatDoNotAgree) {
  const ByteString whole = bytes_of(said());
  const std::string text(whole.begin(), whole.end());
  write_file(said(), text.substr(text.find('\n') + 1));
  expect_refusal([&] { open(); }, "transcript 1 is of \"an1-abcd-b\"");
  write_file(said(), text.substr(0, text.rfind("<s>")));
  expect_refusal([&] { open(); }, "has no line for an4_clstk/abcd/an5-abcd-b");
  write_file(said(), text + "<s> TWO </s> (more)\n");
  expect_refusal([&] { open(); }, "transcript 7 is of \"more\"");
  write_file(said(), std::string_view("<s> </s> (an0-abcd-b)\n"));
  expect_refusal([&] { open(); }, "line 1 says nothing");
  write_file(said(), std::string_view("<s> B2 </s> (an0-abcd-b)\n"));
  expect_refusal([&] { open(); }, "\"2\" in \"B2\" is not a letter");
  write_file(said(), std::string_view("<s> TWO </s>\n"));
  expect_refusal([&] { open(); }, "line 1 does not end in (file id)");
  write_file(path() / "etc/an4_train.fileids", std::string_view("../../etc/passwd\n"));
  expect_refusal([&] { open(); }, "leads out of the set");
}

TEST_F(An4, SaysHowToGetWhatIsMissing) {
  const TemporaryFolder empty;
  expect_refusal([&] { open_speech("an4", empty.path(), Split::train); },
                 "topknot data an4");
  EXPECT_REFUSAL(open_speech("an5", empty.path(), Split::train), ConfigError,
                 "There is no speech \"an5\"; there are an4 and generated.");
}

class Audio : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& bytes) const {
    write_file(folder_.path() / name, bytes);
    return folder_.path() / name;
  }
  const std::vector<float> samples_ = {0, 0.25F, 0.5F, 0.25F, -0.125F, -1, 0.125F};
  TemporaryFolder folder_;
};

TEST_F(Audio, IsRefusedWhenCutShortAnywhere) {
  for (const auto& [name, bytes] :
       {std::pair{"a.wav", wave_file(samples_)}, {"a.sph", sphere_file(samples_)}}) {
    const std::filesystem::path path = file(name, bytes);
    EXPECT_EQ(read_audio(path), samples_);
    with_every_cut(path, [&](std::size_t length) {
      EXPECT_TRUE(refused([&] { read_audio(path); })) << name << " of " << length;
    });
  }
}

TEST_F(Audio, NeverDoesWorseThanRefuseRandomBytes) {
  for (const auto& [name, bytes] :
       {std::pair{"a.wav", wave_file(samples_)}, {"a.sph", sphere_file(samples_)}}) {
    const std::filesystem::path path = file(name, bytes);
    with_flipped_bytes(path, 500, [&] { refused([&] { read_audio(path); }); });
  }
}

TEST_F(Audio, IsReadInEitherByteOrder) {
  const auto speech = open_speech("generated:size=1", {}, Split::train);
  const std::vector<float> samples = speech->samples(0);
  EXPECT_EQ(read_audio(file("little.raw", pcm(samples, false))), samples);
  EXPECT_EQ(read_audio(file("big.raw", pcm(samples, true))), samples);
  EXPECT_EQ(read_audio(file("little.sph", sphere_file(samples, false))), samples);
}

TEST_F(Audio, OfAnotherFormatIsRefused) {
  std::string stereo = wave_file(samples_);
  stereo[22] = 2;
  expect_refusal([&] { read_audio(file("a.wav", stereo)); },
                 "has 2 channels of Signed 16 bit PCM");
  std::string coded = sphere_file(samples_);
  coded.replace(coded.find("-s3 pcm"), 7, "-s3 ulaw");
  coded.erase(1024, 1);
  expect_refusal([&] { read_audio(file("a.sph", coded)); }, "has 1 channels of U-Law");
  expect_refusal([&] { read_audio(file("a.raw", "odd")); }, "not a whole number");
  expect_refusal([&] { read_audio(file("b.wav", "none")); }, "is neither a wave");
}

// Numbers that pass for 1, 16,000 and 2 where they are cut to 32 bits or multiplied by 8.
TEST_F(Audio, WithHugeNumbersInItsHeaderIsRefused) {
  for (const auto& [field, huge] :
       {std::pair<std::string, std::string>{"channel_count -i 1", "4294967297"},
        {"sample_rate -i 16000", "4294983296"},
        {"sample_n_bytes -i 2", "2305843009213693954"}}) {
    const std::string bytes = sphere_file(samples_);
    const std::size_t at = bytes.find(field);
    const std::string name = field.substr(0, field.find(' '));
    std::string head = bytes.substr(0, at) + name + " -i " + huge +
                       bytes.substr(at + field.size(), 1024 - at - field.size());
    head.resize(1024);
    expect_refusal([&] { read_audio(file("a.sph", head + bytes.substr(1024))); },
                   "without a good " + name);
  }
}

TEST(Letters, AreTheAlphabets) {
  EXPECT_EQ(letter_ids("A z'"), (std::vector<std::int32_t>{2, 28, 27, 1}));
  EXPECT_EQ(kAlphabet.size(), 29U);
  expect_refusal([] { letter_ids("_"); }, "is not a letter");
}

TEST(GeneratedSpeech, IsTheSameForASeed) {
  const auto one = open_speech("generated:size=20,seed=2", {}, Split::train);
  const auto same = open_speech("generated:size=9,seed=2", {}, Split::train);
  const auto test = open_speech("generated:size=20,seed=2", {}, Split::test);
  EXPECT_EQ(one->size(), 20U);
  EXPECT_EQ(test->size(), 6U);
  EXPECT_EQ(one->samples(3), same->samples(3));
  EXPECT_EQ(one->transcript(3), same->transcript(3));
  EXPECT_NE(one->samples(3), test->samples(3));
  std::set<std::string> said;
  for (std::size_t i = 0; i < one->size(); ++i) {
    said.insert(one->transcript(i));
    EXPECT_NO_THROW(letter_ids(one->transcript(i)));
    // A letter takes at least 50 ms, so that CTC has room for all of them.
    EXPECT_GE(one->samples(i).size(), one->transcript(i).size() * kSampleRate / 20);
  }
  EXPECT_GT(said.size(), 15U);
}

TEST(An4Real, HasItsUtterances) {
  const char* const data = std::getenv("TOPKNOT_DATA");
  if (data == nullptr) GTEST_SKIP() << "TOPKNOT_DATA does not name the real sets";
  const auto train = open_speech("an4", data, Split::train);
  const auto test = open_speech("an4", data, Split::test);
  EXPECT_EQ(train->size(), 384U);
  EXPECT_EQ(test->size(), 130U);
  EXPECT_EQ(train->transcript(0), "YES");
  EXPECT_EQ(test->transcript(0), "RUBOUT G M E F THREE NINE");
  EXPECT_EQ(train->samples(0).size(), 16'000U);
}

}  // namespace
}  // namespace topknot::data
