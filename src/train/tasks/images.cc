// SPDX-License-Identifier: Apache-2.0
//
// The class of an image. An epoch is one shuffle of the training set, the same on all ranks. A
// pass takes the next ranks x batch samples of it, in rank order. Samples at the end of an epoch
// that do not fill a pass are dropped; a set smaller than one pass is repeated within it.

#include "data/images.h"
#include "core/random.h"
#include "data/fingerprint.h"
#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/task.h"
#include "train/tasks/permutation.h"

namespace topknot::train {
namespace {

constexpr std::uint64_t kEvaluated = 250;  // images at a time

class Classification final : public Task {
 public:
  Classification(const Job& job, const RankInfo& rank_info)
      : job_(job),
        rank_info_(rank_info),
        batch_(static_cast<std::uint64_t>(job.batch)),
        augmentation_{static_cast<std::uint32_t>(job.pad), job.flip, job.rotate},
        train_(data::open_images(job.data, job.folder, data::Split::train)),
        test_(data::open_images(job.data, job.folder, data::Split::test)),
        normalisation_(data::normalisation(job.data)),
        network_(make_model<made_for::images>(
            Spec::parse(job.model), NetworkShape{train_->shape(), train_->classes()})) {
    if (train_->size() == 0 || test_->size() == 0)
      throw DataError("The data set " + job.data + " has no images to " +
                      (train_->size() == 0 ? "train on." : "test on."));
    initialise(*network_, stream(job_, Draw::weights));
  }

  torch::nn::Module& model() override { return *network_; }
  std::uint64_t train_samples() const override { return train_->size(); }
  std::uint64_t test_samples() const override {
    return evaluated_samples(job_, test_->size());
  }
  std::uint64_t data_fingerprint() const override {
    return joined(data::fingerprint(*train_), data::fingerprint(*test_));
  }
  std::uint64_t samples_per_pass() const override {
    return batch_ * static_cast<std::uint64_t>(rank_info_.ranks);
  }

  torch::Tensor loss(const Position& at) override {
    const Stopwatch watch;
    const Permutation order(train_->size(), stream(job_, Draw::shuffle, at.epoch));
    std::vector<std::uint64_t> samples(batch_);
    const std::uint64_t first =
        at.sample + static_cast<std::uint64_t>(rank_info_.rank) * batch_;
    for (std::uint64_t i = 0; i < batch_; ++i)
      samples[i] = order((first + i) % train_->size());
    network_->train();
    const auto [images, labels] = load_varied(samples, at.epoch, first);
    batch_is_made(watch);
    return torch::cross_entropy_loss(network_->forward(images), labels);
  }

  std::vector<double> evaluate() override {
    const torch::NoGradGuard no_grad;
    network_->eval();
    std::vector<double> sums(3);
    share_out(rank_info_, test_samples(), kEvaluated, on_evaluated,
              [&](const auto& samples) { add_scores(samples, sums); });
    return sums;
  }

  Metric metric(const std::vector<double>& sums) const override {
    return {"accuracy", sums[2] / sums[0]};
  }

 private:
  using Batch = std::pair<torch::Tensor, torch::Tensor>;  // images and labels

  static Batch empty_batch(const data::ImageShape& shape, std::size_t samples) {
    const auto count = static_cast<std::int64_t>(samples);
    return {torch::empty({count, shape.channels, shape.height, shape.width}),
            torch::empty({count}, torch::kLong)};
  }

  Batch load(const data::Images& from, const std::vector<std::uint64_t>& samples) {
    const data::ImageShape shape = from.shape();
    Batch batch = empty_batch(shape, samples.size());
    raw_.resize(shape.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      from.read(samples[i], raw_);
      normalise(raw_, shape, batch.first.data_ptr<float>() + i * shape.size());
      batch.second.data_ptr<std::int64_t>()[i] = from.label(samples[i]);
    }
    return batch;
  }

  // An image's draws depend on its position in the epoch, not on the rank or on the batch size.
  Batch load_varied(const std::vector<std::uint64_t>& samples, std::uint64_t epoch,
                    std::uint64_t first) {
    const data::ImageShape shape = train_->shape();
    Batch batch = empty_batch(shape, samples.size());
    raw_.resize(shape.size());
    varied_.resize(shape.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      core::Random draws(
          core::random_bits(stream(job_, Draw::augmentation, epoch), first + i));
      train_->read_part(samples[i], raw_, draws);
      data::augment(raw_, varied_, shape, augmentation_, draws);
      normalise(varied_, shape, batch.first.data_ptr<float>() + i * shape.size());
      batch.second.data_ptr<std::int64_t>()[i] = train_->label(samples[i]);
    }
    return batch;
  }

  void normalise(std::span<const std::uint8_t> pixels, const data::ImageShape& shape,
                 float* image) const {
    const std::size_t plane = shape.size() / shape.channels;
    for (std::size_t channel = 0; channel < shape.channels; ++channel) {
      const float scale = 1 / (255 * normalisation_.deviation[channel]);
      const float shift =
          normalisation_.mean[channel] / normalisation_.deviation[channel];
      for (std::size_t i = channel * plane; i < (channel + 1) * plane; ++i)
        image[i] = static_cast<float>(pixels[i]) * scale - shift;
    }
  }

  void add_scores(const std::vector<std::uint64_t>& samples, std::vector<double>& sums) {
    const auto [images, labels] = load(*test_, samples);
    const torch::Tensor logits = network_->forward(images);
    const torch::Tensor losses =
        torch::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Sum);
    sums[0] += static_cast<double>(samples.size());
    sums[1] += losses.item<double>();
    sums[2] += logits.argmax(1).eq(labels).sum().item<double>();
  }

  const Job job_;
  const RankInfo rank_info_;
  const std::uint64_t batch_;
  const data::Augmentation augmentation_;
  const std::unique_ptr<data::Images> train_;
  const std::unique_ptr<data::Images> test_;
  const data::Normalisation normalisation_;
  const std::shared_ptr<Network> network_;
  std::vector<std::uint8_t> raw_;
  std::vector<std::uint8_t> varied_;
};

}  // namespace

std::unique_ptr<Task> task::images(const Job& job, const RankInfo& rank_info) {
  return std::make_unique<Classification>(job, rank_info);
}

}  // namespace topknot::train
