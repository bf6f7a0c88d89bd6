// SPDX-License-Identifier: Apache-2.0
//
// The next word of a text. The training text is cut into ranks x batch lanes of equal length. A
// pass is the next `bptt` words of every lane. The model's state of a lane is carried from pass to
// pass, without its gradient, and set to zero at the start of an epoch. A sample is a word; words
// at the end of the lanes that do not fill a pass are dropped. Dropout is the same whether ranks
// are threads or processes.
//
// The score is the perplexity of the test part, of which each rank reads a contiguous share, in
// lanes. The plateau schedule goes by the validation part instead, which only it reads.

#include <algorithm>
#include <cmath>
#include <span>

#include "data/fingerprint.h"
#include "data/text.h"
#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/task.h"

namespace topknot::train {
namespace {

constexpr std::uint64_t kTestLanes = 16;   // of a rank; fewer where they would be short
constexpr std::uint64_t kTestWords = 256;  // in a lane, at least

class Language final : public Task {
 public:
  Language(const Job& job, const RankInfo& rank_info)
      : job_(job),
        rank_info_(rank_info),
        words_(data::open_words(job.data, job.folder)),
        model_(make_model<made_for::language>(
            Spec::parse(job.model), static_cast<std::int64_t>(words_.vocabulary.size()))),
        lanes_(static_cast<std::uint64_t>(job.batch * rank_info.ranks)),
        length_((words_.train.size() - 1) / lanes_),
        validates_(Spec::parse(job.lr_schedule).name == "plateau") {
    if (length_ < bptt())
      throw ConfigError("A text of " + std::to_string(words_.train.size()) +
                        " words is too short for " + std::to_string(lanes_) +
                        " lanes (batch x workers) of " + std::to_string(bptt()) +
                        " words (bptt); take fewer or shorter ones.");
    if (words_.test.size() < 2 || words_.valid.size() < 2)
      throw DataError("The corpus " + job.data +
                      " has fewer than two words to test on; a word needs a next.");
    model_->initialise(stream(job_, Draw::weights));
    states_ = model_->zero_states(job.batch);
  }

  torch::nn::Module& model() override { return *model_; }
  std::uint64_t train_samples() const override { return lanes_ * length_; }
  std::uint64_t test_samples() const override {
    return evaluated_samples(job_, words_.test.size() - 1);
  }
  std::uint64_t data_fingerprint() const override { return data::fingerprint(words_); }
  std::uint64_t samples_per_pass() const override { return lanes_ * bptt(); }

  torch::Tensor loss(const Position& at) override {
    // After a change of the number of ranks this is the nearest position in the new lanes. A step
    // with more passes than the text has begins again.
    const std::uint64_t first = at.sample / lanes_ % (length_ - bptt() + 1);
    if (first == 0) forget();
    const auto batch = static_cast<std::uint64_t>(job_.batch);
    const std::span<const data::TokenId> mine =
        std::span(words_.train)
            .subspan(static_cast<std::uint64_t>(rank_info_.rank) * batch * length_);
    at::Generator draws = generator(job_, rank_info_, at);
    LanguageModel::States states;
    for (const auto& [hidden, cell] : states_)
      states.emplace_back(hidden.clone(), cell.clone());  // the backward pass reads these
    const torch::Tensor loss = next_word_loss(mine.subspan(first), length_, batch, bptt(),
                                              states, &draws, at::Reduction::Mean);
    carry(states);
    return loss;
  }

  std::vector<double> evaluate() override {
    std::vector<double> sums = score_of(std::span(words_.test).first(test_samples() + 1));
    if (!validates_) return sums;
    const std::vector<double> valid = score_of(words_.valid);
    sums.insert(sums.end(), valid.begin(), valid.end());
    return sums;
  }

  Metric metric(const std::vector<double>& sums) const override {
    return {"perplexity", std::exp(sums[1] / sums[0])};
  }

  double score(const std::vector<double>& sums) const override {
    return validates_ ? sums[3] / sums[2] : sums[1] / sums[0];
  }

  std::vector<std::pair<std::string, torch::Tensor>> carried() override {
    std::vector<std::pair<std::string, torch::Tensor>> all;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      all.emplace_back("hidden" + std::to_string(i), std::get<0>(states_[i]));
      all.emplace_back("cell" + std::to_string(i), std::get<1>(states_[i]));
    }
    return all;
  }

 private:
  std::uint64_t bptt() const { return static_cast<std::uint64_t>(model_->bptt()); }

  void forget() {
    for (auto& [hidden, cell] : states_) {
      hidden.zero_();
      cell.zero_();
    }
  }

  // Checkpoints hold views of the tensors: these stay, and their values change.
  void carry(const LanguageModel::States& after) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      std::get<0>(states_[i]).copy_(std::get<0>(after[i]));
      std::get<1>(states_[i]).copy_(std::get<1>(after[i]));
    }
  }

  /// The loss of `time` words in each of `lanes` lanes, which start `apart` words from one
  /// another.
  torch::Tensor next_word_loss(std::span<const data::TokenId> text, std::uint64_t apart,
                               std::uint64_t lanes, std::uint64_t time,
                               LanguageModel::States& states, at::Generator* draws,
                               at::Reduction::Reduction reduction) {
    const Stopwatch watch;
    const std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(time),
                                             static_cast<std::int64_t>(lanes)};
    torch::Tensor ids = torch::empty(sizes, torch::kLong);
    torch::Tensor next = torch::empty(sizes, torch::kLong);
    for (std::uint64_t t = 0; t < time; ++t)
      for (std::uint64_t lane = 0; lane < lanes; ++lane) {
        const std::uint64_t at = lane * apart + t;
        ids.data_ptr<std::int64_t>()[t * lanes + lane] = text[at];
        next.data_ptr<std::int64_t>()[t * lanes + lane] = text[at + 1];
      }
    batch_is_made(watch);
    const torch::Tensor logits = model_->forward(ids, states, draws);
    return torch::cross_entropy_loss(logits.flatten(0, 1), next.flatten(), /*weight=*/{},
                                     reduction);
  }

  /// The number of words in this rank's share, and the sum of their losses. The last words, fewer
  /// than there are lanes, are left out.
  std::vector<double> score_of(std::span<const data::TokenId> text) {
    const torch::NoGradGuard no_grad;
    const std::uint64_t all = text.size() - 1;
    const auto rank = static_cast<std::uint64_t>(rank_info_.rank);
    const auto ranks = static_cast<std::uint64_t>(rank_info_.ranks);
    const std::uint64_t first = all * rank / ranks;
    const std::uint64_t share = all * (rank + 1) / ranks - first;
    const std::uint64_t lanes =
        std::clamp<std::uint64_t>(share / kTestWords, 1, kTestLanes);
    const std::uint64_t length = share / lanes;
    LanguageModel::States states = model_->zero_states(static_cast<std::int64_t>(lanes));
    std::vector<double> sums(2);
    for (std::uint64_t at = 0; at < length; at += bptt()) {
      const std::uint64_t time = std::min(bptt(), length - at);
      const torch::Tensor losses =
          next_word_loss(text.subspan(first + at), length, lanes, time, states,
                         /*draws=*/nullptr, at::Reduction::Sum);
      sums[0] += static_cast<double>(time * lanes);
      sums[1] += losses.item<double>();
      on_evaluated(std::min(all, (at + time) * lanes * ranks), all);
    }
    return sums;
  }

  const Job job_;
  const RankInfo rank_info_;
  const data::Words words_;
  const std::shared_ptr<LanguageModel> model_;
  const std::uint64_t lanes_;   // of all ranks
  const std::uint64_t length_;  // of each, in words that have a next
  const bool validates_;
  LanguageModel::States states_;
};

}  // namespace

std::unique_ptr<Task> task::language(const Job& job, const RankInfo& rank_info) {
  return std::make_unique<Language>(job, rank_info);
}

}  // namespace topknot::train
