// SPDX-License-Identifier: Apache-2.0
//
// Whether a user likes an item. A sample is a user, an item and the answer: yes for an item that
// the user has rated. For each rating some items that its user has not rated are drawn, anew in
// every epoch, with the answer no. Sample s of an epoch is a pure function of seed, epoch and s,
// so ranks need neither a list nor each other. The score ranks a user's held-out item among 99
// others; a tie counts against it.

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "data/fingerprint.h"
#include "data/ratings.h"
#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/task.h"
#include "train/tasks/permutation.h"

namespace topknot::train {
namespace {

constexpr std::uint32_t kEvaluated = 64;  // users at a time
constexpr std::int64_t kRanked = 1 + data::Ratings::kNegatives;
constexpr std::int64_t kTop = 10;

class Recommendation final : public Task {
 public:
  Recommendation(const Job& job, const RankInfo& rank_info)
      : job_(job),
        rank_info_(rank_info),
        batch_(static_cast<std::uint64_t>(job.batch)),
        ratings_(data::open_ratings(job.data, job.folder)) {
    check_choice();
    Spec spec = Spec::parse(job.model);
    each_ = 1 + static_cast<std::uint64_t>(spec.params.integer(
                    "negatives", 4, 1, 1000, "items drawn for each rating"));
    model_ = make_model<made_for::ratings>(
        spec, RatingShape{.users = ratings_.users(),
                          .items = ratings_.items(),
                          .seed = stream(job_, Draw::weights)});
  }

  torch::nn::Module& model() override { return *model_; }
  std::uint64_t train_samples() const override { return ratings_.train().size() * each_; }
  std::uint64_t test_samples() const override {
    return evaluated_samples(job_, ratings_.users());
  }
  std::uint64_t data_fingerprint() const override { return data::fingerprint(ratings_); }
  std::uint64_t samples_per_pass() const override {
    return batch_ * static_cast<std::uint64_t>(rank_info_.ranks);
  }

  torch::Tensor loss(const Position& at) override {
    const Stopwatch watch;
    const auto count = static_cast<std::int64_t>(batch_);
    const torch::Tensor users = torch::empty({count}, torch::kLong);
    const torch::Tensor items = torch::empty({count}, torch::kLong);
    const torch::Tensor answers = torch::empty({count});
    const Permutation order(train_samples(), stream(job_, Draw::shuffle, at.epoch));
    const std::uint64_t negatives = stream(job_, Draw::augmentation, at.epoch);
    const std::uint64_t first =
        at.sample + static_cast<std::uint64_t>(rank_info_.rank) * batch_;
    for (std::uint64_t i = 0; i < batch_; ++i) {
      const std::uint64_t sample = order((first + i) % train_samples());
      const auto [user, liked] = ratings_.train()[sample / each_];
      const bool yes = sample % each_ == 0;
      core::Random draws(core::random_bits(negatives, sample));
      users.data_ptr<std::int64_t>()[i] = user;
      items.data_ptr<std::int64_t>()[i] =
          yes ? liked : ratings_.draw_negative(user, draws);
      answers.data_ptr<float>()[i] = yes ? 1 : 0;
    }
    batch_is_made(watch);
    model_->train();
    at::Generator draws = generator(job_, rank_info_, at);
    return torch::binary_cross_entropy_with_logits(model_->forward(users, items, &draws),
                                                   answers);
  }

  // Sums: users, losses, hits, gains.
  std::vector<double> evaluate() override {
    const torch::NoGradGuard no_grad;
    model_->eval();
    std::vector<double> sums(4);
    share_out(rank_info_, test_samples(), kEvaluated, on_evaluated,
              [&](const auto& users) { add_scores(users, sums); });
    return sums;
  }

  Metric metric(const std::vector<double>& sums) const override {
    return {"HR@10", sums[2] / sums[0]};
  }
  std::vector<Metric> others(const std::vector<double>& sums) const override {
    return {{"NDCG@10", sums[3] / sums[0]}};
  }
  double score(const std::vector<double>& sums) const override {
    return 1 - sums[2] / sums[0];
  }

 private:
  void check_choice() const {
    if (ratings_.train().empty())
      throw DataError("The data set " + job_.data + " has no ratings to train on.");
    std::vector<std::uint32_t> liked(ratings_.users());
    for (const data::Ratings::Pair& pair : ratings_.train())
      if (++liked[pair.user] == ratings_.items())
        throw DataError("In the data set " + job_.data + " user " +
                        std::to_string(pair.user) +
                        " rated every item; there must be others to tell them from.");
  }

  void add_scores(const std::vector<std::uint64_t>& users, std::vector<double>& sums) {
    const auto count = static_cast<std::int64_t>(users.size());
    const torch::Tensor who = torch::empty({count, kRanked}, torch::kLong);
    const torch::Tensor what = torch::empty({count, kRanked}, torch::kLong);
    std::int64_t* user_at = who.data_ptr<std::int64_t>();
    std::int64_t* item_at = what.data_ptr<std::int64_t>();
    for (const std::uint64_t sample : users) {
      const auto user = static_cast<std::uint32_t>(sample);
      user_at = std::fill_n(user_at, kRanked, user);
      *item_at++ = ratings_.held_out(user);
      item_at = std::copy_n(ratings_.negatives(user).begin(), data::Ratings::kNegatives,
                            item_at);
    }
    const torch::Tensor logits =
        model_->forward(who.flatten(), what.flatten(), nullptr).view({count, kRanked});
    torch::Tensor answers = torch::zeros({count, kRanked});
    answers.select(1, 0).fill_(1);
    sums[0] += static_cast<double>(count);
    sums[1] +=
        torch::binary_cross_entropy_with_logits(logits, answers, /*weight=*/{},
                                                /*pos_weight=*/{}, at::Reduction::Sum)
            .item<double>() /
        static_cast<double>(kRanked);
    for (std::int64_t row = 0; row < count; ++row)
      add_rank(logits.data_ptr<float>() + row * kRanked, sums);
  }

  // The held-out item is the first. A NaN among the others ranks above it.
  static void add_rank(const float* logits, std::vector<double>& sums) {
    const auto above = std::count_if(logits + 1, logits + kRanked,
                                     [&](float other) { return !(other < logits[0]); });
    if (above >= kTop) return;
    sums[2] += 1;
    sums[3] += 1 / std::log2(static_cast<double>(above) + 2);
  }

  const Job job_;
  const RankInfo rank_info_;
  const std::uint64_t batch_;
  const data::Ratings ratings_;
  std::uint64_t each_ = 0;  // samples for each rating
  std::shared_ptr<RatingModel> model_;
};

}  // namespace

std::unique_ptr<Task> task::ratings(const Job& job, const RankInfo& rank_info) {
  return std::make_unique<Recommendation>(job, rank_info);
}

}  // namespace topknot::train
