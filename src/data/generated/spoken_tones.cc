// SPDX-License-Identifier: Apache-2.0
//
// Generated speech: one to five digits with pauses between them. Every letter of a digit's name
// is a pair of tones, like formants, that glides to the pair of the next letter. Each utterance
// has its own pitch, pace and loudness, and noise.
#include <algorithm>

#include "data/exact.h"
#include "data/generated/generated.h"
#include "topknot/error.h"

namespace topknot::data {
namespace {

constexpr std::string_view kDigits[] = {"ZERO", "ONE", "TWO",   "THREE", "FOUR",
                                        "FIVE", "SIX", "SEVEN", "EIGHT", "NINE"};
constexpr float kNoise = 0.01F;

struct Tones {
  double low, high;  // Hz
};

/// No two letters have the same pair of tones.
Tones tones_of(char letter) {
  const int n = letter - 'A';
  return {250.0 + 110 * (n % 6), 1100.0 + 420 * ((n * 5) % 7)};
}

class SpokenTones final : public Speech {
 public:
  SpokenTones(Split split, Params& params) {
    const auto size = static_cast<std::size_t>(
        params.integer("size", 400, 1, 10'000'000,
                       "utterances to train on; the test half has a quarter"));
    const auto seed = static_cast<std::uint64_t>(
        params.integer("seed", 1, 0, INT64_MAX, "what is drawn from"));
    stream_ = core::random_bits(seed, split == Split::train ? 1 : 2);
    transcripts_.resize(split == Split::train ? size : size / 4 + 1);
    for (std::size_t i = 0; i < transcripts_.size(); ++i) {
      core::Random random(core::random_bits(stream_, 2 * i));
      for (std::uint64_t n = random.below(5) + 1; n > 0; --n) {
        if (!transcripts_[i].empty()) transcripts_[i] += ' ';
        transcripts_[i] += kDigits[random.below(10)];
      }
    }
  }

  std::size_t size() const override { return transcripts_.size(); }
  const std::string& transcript(std::size_t i) const override {
    check(i);
    return transcripts_[i];
  }

  std::vector<float> samples(std::size_t i) const override {
    check(i);
    core::Random random(core::random_bits(stream_, 2 * i + 1));
    const double pitch = 0.85 + 0.3 * random.uniform();
    const auto pace =
        static_cast<std::size_t>(kSampleRate * (0.05 + 0.03 * random.uniform()));
    const float loudness = 0.1F + 0.2F * random.uniform();
    std::vector<float> wave(pace);  // a pause before
    double low = 0;                 // phases, in turns
    double high = 0;
    const std::string& said = transcripts_[i];
    for (std::size_t at = 0; at < said.size(); ++at) {
      if (said[at] == ' ') {
        wave.resize(wave.size() + 2 * pace);
        continue;
      }
      const Tones here = tones_of(said[at]);
      const bool last = at + 1 == said.size() || said[at + 1] == ' ';
      const Tones next = last ? here : tones_of(said[at + 1]);
      for (std::size_t t = 0; t < pace; ++t) {
        // The tones stay for two thirds of a letter and glide in the last third.
        const double u = static_cast<double>(t) / static_cast<double>(pace);
        const double glide = std::max(0.0, 3 * u - 2);
        low += pitch * (here.low + glide * (next.low - here.low)) / kSampleRate;
        high += pitch * (here.high + glide * (next.high - here.high)) / kSampleRate;
        wave.push_back(loudness * static_cast<float>(sine(low) + 0.6 * sine(high)));
      }
    }
    wave.resize(wave.size() + pace);
    for (float& sample : wave) {
      const float value = std::clamp(sample + kNoise * bell(random), -1.0F, 0.999F);
      sample = static_cast<float>(static_cast<std::int16_t>(value * 32767)) / 32768.0F;
    }
    return wave;
  }

 private:
  void check(std::size_t i) const {
    if (i >= size())
      throw ContractError("There is no utterance " + std::to_string(i) + ": there are " +
                          std::to_string(size()) + ", counted from 0.");
  }

  std::uint64_t stream_ = 0;
  std::vector<std::string> transcripts_;
};

}  // namespace

std::unique_ptr<Speech> make_speech(Split split, Params& params) {
  return std::make_unique<SpokenTones>(split, params);
}

}  // namespace topknot::data
