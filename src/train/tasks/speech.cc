// SPDX-License-Identifier: Apache-2.0
//
// The transcript of an utterance. An utterance becomes a spectrogram: logarithms of the magnitudes
// of windows of 20 ms every 10 ms, with mean 0 and variance 1. The model gives each frame a letter
// or the blank; CTC (Graves et al., ICML 2006) adds up all ways in which frames can spell the
// transcript. The loss is the mean over utterances, not over letters, as in the papers whose
// learning rates the jobs use. An utterance with more letters than frames has no gradient.
//
// Every file is read once before the first step, so that a broken file ends the run there, on all
// ranks and with one sentence.

#include <algorithm>
#include <string>

#include "data/fingerprint.h"
#include "data/speech.h"
#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/task.h"
#include "train/tasks/permutation.h"

namespace topknot::train {
namespace {

constexpr std::size_t kEvaluated = 8;  // utterances at a time
constexpr std::int64_t kWindow = data::kSampleRate / 50;
constexpr std::int64_t kHop = data::kSampleRate / 100;
constexpr std::int64_t kFeatures = kWindow / 2 + 1;
constexpr std::size_t kShortest =
    4 * kHop;  // samples; shorter utterances are padded with silence

/// (frame, feature)
torch::Tensor spectrogram(std::vector<float> samples) {
  samples.resize(std::max(samples.size(), kShortest));
  const torch::Tensor wave =
      torch::from_blob(samples.data(), {static_cast<std::int64_t>(samples.size())});
  const torch::Tensor waves =
      torch::stft(wave, kWindow, kHop, kWindow, torch::hamming_window(kWindow),
                  /*center=*/true, "reflect", /*normalized=*/false, /*onesided=*/true,
                  /*return_complex=*/true);
  const torch::Tensor logs = torch::log1p(waves.abs()).t();
  return ((logs - logs.mean()) / (logs.std() + 1e-5)).contiguous();
}

/// The text that the likeliest letters of the frames spell: without repetitions and blanks.
std::string spell(const std::int64_t* letters, std::int64_t frames) {
  std::string text;
  for (std::int64_t t = 0; t < frames; ++t)
    if (letters[t] != 0 && (t == 0 || letters[t] != letters[t - 1]))
      text += data::kAlphabet[static_cast<std::size_t>(letters[t])];
  return text;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    if (c != ' ' && !inside) words.emplace_back();
    if (c != ' ') words.back() += c;
    inside = c != ' ';
  }
  return words;
}

/// The fewest words to insert, delete or replace (Levenshtein distance).
std::size_t edits(const std::vector<std::string>& from,
                  const std::vector<std::string>& to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

class Recognition final : public Task {
 public:
  Recognition(const Job& job, const RankInfo& rank_info)
      : job_(job),
        rank_info_(rank_info),
        batch_(static_cast<std::uint64_t>(job.batch)),
        train_(data::open_speech(job.data, job.folder, data::Split::train)),
        test_(data::open_speech(job.data, job.folder, data::Split::test)) {
    for (const data::Speech* half : {train_.get(), test_.get()}) {
      if (half->size() == 0)
        throw DataError("The data set " + job.data + " has a half without utterances.");
      data_fingerprint_ = joined(data_fingerprint_, data::fingerprint(*half));
    }
    model_ = make_model<made_for::speech>(
        Spec::parse(job.model),
        AcousticShape{.features = kFeatures,
                      .letters = static_cast<std::int64_t>(data::kAlphabet.size()),
                      .seed = stream(job_, Draw::weights)});
  }

  torch::nn::Module& model() override { return *model_; }
  std::uint64_t train_samples() const override { return train_->size(); }
  std::uint64_t test_samples() const override {
    return evaluated_samples(job_, test_->size());
  }
  std::uint64_t data_fingerprint() const override { return data_fingerprint_; }
  std::uint64_t samples_per_pass() const override {
    return batch_ * static_cast<std::uint64_t>(rank_info_.ranks);
  }

  torch::Tensor loss(const Position& at) override {
    const Stopwatch watch;
    const Permutation order(train_->size(), stream(job_, Draw::shuffle, at.epoch));
    const std::uint64_t first =
        at.sample + static_cast<std::uint64_t>(rank_info_.rank) * batch_;
    std::vector<std::size_t> which(batch_);
    for (std::uint64_t i = 0; i < batch_; ++i)
      which[i] = order((first + i) % train_->size());
    model_->train();
    at::Generator draws = generator(job_, rank_info_, at);
    const Batch batch = load(*train_, which);
    batch_is_made(watch);
    return ctc(model_->forward(batch.frames, &draws), batch) /
           static_cast<double>(batch_);
  }

  // Sums: utterances, losses, wrong words, words.
  std::vector<double> evaluate() override {
    const torch::NoGradGuard no_grad;
    model_->eval();
    std::vector<double> sums(4);
    share_out(rank_info_, test_samples(), kEvaluated, on_evaluated,
              [&](const auto& which) { add_scores(which, sums); });
    return sums;
  }

  Metric metric(const std::vector<double>& sums) const override {
    return {"word error rate", sums[2] / sums[3]};
  }
  double score(const std::vector<double>& sums) const override {
    return sums[2] / sums[3];
  }

 private:
  struct Batch {
    Frames frames;
    std::vector<std::string> transcripts;
  };

  static Batch load(const data::Speech& from, const std::vector<std::size_t>& which) {
    Batch batch;
    std::vector<torch::Tensor> spectrograms;
    for (const std::size_t i : which) {
      spectrograms.push_back(spectrogram(from.samples(i)));
      batch.frames.lengths.push_back(spectrograms.back().size(0));
      batch.transcripts.push_back(from.transcript(i));
    }
    batch.frames.values = torch::pad_sequence(spectrograms, /*batch_first=*/true);
    return batch;
  }

  static torch::Tensor ctc(const Frames& letters, const Batch& batch) {
    std::vector<std::int64_t> targets;
    std::vector<std::int64_t> lengths;
    for (const std::string& transcript : batch.transcripts) {
      const std::vector<std::int32_t> ids = data::letter_ids(transcript);
      targets.insert(targets.end(), ids.begin(), ids.end());
      lengths.push_back(static_cast<std::int64_t>(ids.size()));
    }
    return torch::ctc_loss(letters.values.transpose(0, 1), torch::tensor(targets),
                           letters.lengths, lengths, /*blank=*/0, at::Reduction::Sum,
                           /*zero_infinity=*/true);
  }

  void add_scores(const std::vector<std::size_t>& which, std::vector<double>& sums) {
    const Batch batch = load(*test_, which);
    const Frames letters = model_->forward(batch.frames, nullptr);
    sums[0] += static_cast<double>(which.size());
    sums[1] += ctc(letters, batch).item<double>();
    const torch::Tensor likeliest = letters.values.argmax(2).contiguous();
    for (std::size_t i = 0; i < which.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      const std::string heard =
          spell(likeliest.data_ptr<std::int64_t>() + row * likeliest.size(1),
                letters.lengths[i]);
      const std::vector<std::string> said = words_of(batch.transcripts[i]);
      sums[2] += static_cast<double>(edits(words_of(heard), said));
      sums[3] += static_cast<double>(said.size());
    }
  }

  const Job job_;
  const RankInfo rank_info_;
  const std::uint64_t batch_;
  const std::unique_ptr<data::Speech> train_;
  const std::unique_ptr<data::Speech> test_;
  std::uint64_t data_fingerprint_ = 0;
  std::shared_ptr<AcousticModel> model_;
};

}  // namespace

std::unique_ptr<Task> task::speech(const Job& job, const RankInfo& rank_info) {
  return std::make_unique<Recognition>(job, rank_info);
}

}  // namespace topknot::train
