// SPDX-License-Identifier: Apache-2.0
//
// BERT's pre-training. A sample is a pair of stretches of text, as data/documents.h makes them.
// Which stretch comes second and which pieces are hidden is drawn anew in each epoch, from seed,
// epoch and position. An epoch is one shuffle of the pairs, the same on all ranks. A pass takes
// the next ranks x batch pairs, in rank order. Pairs that do not fill a pass are dropped; a set
// smaller than one pass is repeated within it.
//
// The loss is that of the hidden pieces plus that of the next sentence. The score is the
// perplexity of the hidden pieces of the test half, for which the draws are always the same.

#include <cmath>
#include <limits>

#include "core/random.h"
#include "data/documents.h"
#include "data/fingerprint.h"
#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/task.h"
#include "train/tasks/permutation.h"

namespace topknot::train {
namespace {

constexpr std::uint64_t kEvaluated = 32;                                // pairs at a time
constexpr auto kTestDraws = std::numeric_limits<std::uint64_t>::max();  // not an epoch

/// BERT's word pieces, in or beside the folder of the documents, or those of the generated
/// language.
data::WordPiece pieces_for(const Job& job) {
  Spec documents = Spec::parse(job.data);
  if (documents.name != "generated")
    return data::open_word_pieces("bert-vocab", job.folder);
  const std::int64_t words = documents.params.integer("words", 2000, 128, 1'000'000, "");
  const std::int64_t seed = documents.params.integer("seed", 1, 0, INT64_MAX, "");
  return data::open_word_pieces(
      "generated:words=" + std::to_string(words) + ",seed=" + std::to_string(seed), {});
}

/// Documents of one half, and their pairs.
struct Half {
  Half(const Job& job, data::Split split, const data::WordPiece& pieces,
       std::size_t length)
      : documents(data::open_documents(job.data, job.folder, split, pieces)),
        pairs(documents, pieces, length) {}
  const data::Documents documents;
  const data::SentencePairs pairs;
};

class Pretraining final : public Task {
 public:
  Pretraining(const Job& job, const RankInfo& rank_info)
      : job_(job),
        rank_info_(rank_info),
        batch_(static_cast<std::uint64_t>(job.batch)),
        pieces_(pieces_for(job)),
        model_(make_model<made_for::bert>(Spec::parse(job.model),
                                          static_cast<std::int64_t>(pieces_.size()))),
        length_(model_->length()),
        train_(job, data::Split::train, pieces_, static_cast<std::size_t>(length_)),
        test_(job, data::Split::test, pieces_, static_cast<std::size_t>(length_)) {
    model_->initialise(stream(job_, Draw::weights));
  }

  torch::nn::Module& model() override { return *model_; }
  std::uint64_t train_samples() const override { return train_.pairs.size(); }
  std::uint64_t test_samples() const override {
    return evaluated_samples(job_, test_.pairs.size());
  }
  std::uint64_t data_fingerprint() const override {
    return joined(data::fingerprint(train_.documents),
                  data::fingerprint(test_.documents));
  }
  std::uint64_t samples_per_pass() const override {
    return batch_ * static_cast<std::uint64_t>(rank_info_.ranks);
  }

  torch::Tensor loss(const Position& at) override {
    const Stopwatch watch;
    const Permutation order(train_.pairs.size(), stream(job_, Draw::shuffle, at.epoch));
    std::vector<data::MaskedPair> pairs;
    const std::uint64_t first =
        at.sample + static_cast<std::uint64_t>(rank_info_.rank) * batch_;
    for (std::uint64_t i = first; i < first + batch_; ++i)
      pairs.push_back(drawn(train_, order(i % train_.pairs.size()), at.epoch, i));
    const Batch batch = batch_of(pairs);
    batch_is_made(watch);
    at::Generator draws = generator(job_, rank_info_, at);
    const PairModel::Logits logits = model_->forward(batch.input, &draws);
    return torch::cross_entropy_loss(logits.pieces, batch.pieces) +
           torch::cross_entropy_loss(logits.next, batch.next);
  }

  std::vector<double> evaluate() override {
    const torch::NoGradGuard no_grad;
    std::vector<double> sums(4);
    share_out(rank_info_, test_samples(), kEvaluated, on_evaluated,
              [&](const auto& which) {
                std::vector<data::MaskedPair> pairs;
                for (const std::uint64_t i : which)
                  pairs.push_back(drawn(test_, i, kTestDraws, i));
                add_scores(pairs, sums);
              });
    return sums;
  }

  Metric metric(const std::vector<double>& sums) const override {
    return {"perplexity", std::exp(sums[3] / sums[2])};
  }

 private:
  struct Batch {
    PairModel::Input input;
    torch::Tensor pieces;  // that were hidden
    torch::Tensor next;    // 1 where the second stretch follows the first
  };

  // A pair's draws depend on its position in the epoch, not on the rank or on the batch size.
  data::MaskedPair drawn(const Half& half, std::size_t pair, std::uint64_t epoch,
                         std::uint64_t place) const {
    core::Random draws(core::random_bits(stream(job_, Draw::augmentation, epoch), place));
    return half.pairs.pair(pair, draws);
  }

  Batch batch_of(const std::vector<data::MaskedPair>& pairs) const {
    const auto count = static_cast<std::int64_t>(pairs.size());
    Batch batch;
    batch.input.ids = torch::empty({count, length_}, torch::kLong);
    batch.input.segments = torch::empty({count, length_}, torch::kLong);
    batch.input.unseen = torch::zeros({count, 1, 1, length_});
    batch.next = torch::empty({count}, torch::kLong);
    std::vector<std::int64_t> hidden;
    std::vector<std::int64_t> told;
    std::int64_t at = 0;
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const data::MaskedPair& pair = pairs[p];
      batch.next.data_ptr<std::int64_t>()[p] = pair.next ? 1 : 0;
      for (std::size_t i = 0; i < pair.ids.size(); ++i, ++at) {
        batch.input.ids.data_ptr<std::int64_t>()[at] = pair.ids[i];
        batch.input.segments.data_ptr<std::int64_t>()[at] = pair.segments[i];
        if (i >= pair.used)
          batch.input.unseen.data_ptr<float>()[at] =
              -std::numeric_limits<float>::infinity();
        if (pair.targets[i] < 0) continue;
        hidden.push_back(at);
        told.push_back(pair.targets[i]);
      }
    }
    batch.input.hidden = torch::tensor(hidden, torch::kLong);
    batch.pieces = torch::tensor(told, torch::kLong);
    return batch;
  }

  void add_scores(const std::vector<data::MaskedPair>& pairs, std::vector<double>& sums) {
    const Batch batch = batch_of(pairs);
    const PairModel::Logits logits = model_->forward(batch.input, /*draws=*/nullptr);
    const auto count = static_cast<double>(pairs.size());
    const auto hidden = static_cast<double>(batch.pieces.numel());
    const double pieces =
        torch::cross_entropy_loss(logits.pieces, batch.pieces).item<double>();
    const double next = torch::cross_entropy_loss(logits.next, batch.next).item<double>();
    sums[0] += count;
    sums[1] += count * (pieces + next);
    sums[2] += hidden;
    sums[3] += hidden * pieces;
  }

  const Job job_;
  const RankInfo rank_info_;
  const std::uint64_t batch_;
  const data::WordPiece pieces_;
  const std::shared_ptr<PairModel> model_;
  const std::int64_t length_;  // of a pair, padded
  const Half train_;
  const Half test_;
};

}  // namespace

std::unique_ptr<Task> task::bert(const Job& job, const RankInfo& rank_info) {
  return std::make_unique<Pretraining>(job, rank_info);
}

}  // namespace topknot::train
