// SPDX-License-Identifier: Apache-2.0
//
// acoustic: DeepSpeech 2 (Amodei et al., ICML 2016) in the size that the papers on sparse
// gradients train on AN4. Convolutions halve the frames, LSTMs go over them with norms
// between, and a layer reads letters off. In one direction, a last convolution looks ahead
// over the next 20 frames; in two, the directions are added up. With its defaults it has
// 27,569,568 weights, in two directions 54,823,168.
//
// Between the layers the frames of a batch are packed: those that are only padding never
// enter a norm of the recurrent layers, and the LSTM that runs backward starts at an
// utterance's own end. The convolutions' norms see padding, as the papers' do.

#include "train/models/acoustic.h"

#include <cmath>
#include <string>

#include "topknot/error.h"
#include "train/models/network.h"
#include "train/task.h"

namespace topknot::train {
namespace {

using torch::nn::utils::rnn::pack_padded_sequence;
using torch::nn::utils::rnn::PackedSequence;
using torch::nn::utils::rnn::pad_packed_sequence;

constexpr std::int64_t kChannels = 32;
constexpr std::int64_t kTimeKernel = 11;

torch::Tensor clipped(const torch::Tensor& x) { return torch::hardtanh(x, 0, 20); }

PackedSequence pack(const Frames& frames) {
  return pack_padded_sequence(frames.values, torch::tensor(frames.lengths),
                              /*batch_first=*/true);
}

PackedSequence with(const PackedSequence& frames, torch::Tensor data) {
  return PackedSequence(std::move(data), frames.batch_sizes());
}

Frames unpack(const PackedSequence& packed, std::vector<std::int64_t> lengths) {
  return {std::get<0>(pad_packed_sequence(packed, /*batch_first=*/true)),
          std::move(lengths)};
}

/// What comes before the LSTMs. All but none of them halve the frames.
class Front : public torch::nn::Module {
 public:
  virtual Frames forward(const Frames& x) = 0;
  virtual std::int64_t features() const = 0;

 protected:
  /// For kernels of kTimeKernel with stride 2.
  static std::vector<std::int64_t> halved(std::vector<std::int64_t> lengths) {
    for (std::int64_t& length : lengths) length = (length - 1) / 2 + 1;
    return lengths;
  }
};

class NoFront final : public Front {
 public:
  explicit NoFront(std::int64_t features) : features_(features) {}
  Frames forward(const Frames& x) override { return x; }
  std::int64_t features() const override { return features_; }

 private:
  const std::int64_t features_;
};

/// Over time only; cheap.
class TimeFront final : public Front {
 public:
  TimeFront(std::int64_t features, std::int64_t width)
      : width_(width),
        conv_(register_module("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(
                                                            features, width, kTimeKernel)
                                                            .stride(2)
                                                            .padding(kTimeKernel / 2)))) {
  }

  Frames forward(const Frames& x) override {
    return {clipped(conv_(x.values.transpose(1, 2))).transpose(1, 2), halved(x.lengths)};
  }
  std::int64_t features() const override { return width_; }

 private:
  const std::int64_t width_;
  torch::nn::Conv1d conv_;
};

/// Over time and pitch, as DeepSpeech's.
class ImageFront final : public Front {
 public:
  explicit ImageFront(std::int64_t features)
      : features_(((features - 1) / 2) / 2 + 1),
        first_(register_module("conv1", layer(1, 41, 2))),
        first_norm_(register_module("norm1", torch::nn::BatchNorm2d(kChannels))),
        second_(register_module("conv2", layer(kChannels, 21, 1))),
        second_norm_(register_module("norm2", torch::nn::BatchNorm2d(kChannels))) {}

  Frames forward(const Frames& x) override {
    const std::vector<std::int64_t> lengths = halved(x.lengths);
    torch::Tensor image = x.values.transpose(1, 2).unsqueeze(1);  // (N, 1, pitch, time)
    image = first_(image);
    const torch::Tensor padding = beyond(lengths, image.size(3));
    image = clipped(first_norm_(image.masked_fill(padding, 0)).masked_fill(padding, 0));
    image = second_(image).masked_fill(padding, 0);
    image = clipped(second_norm_(image).masked_fill(padding, 0));
    return {image.flatten(1, 2).transpose(1, 2), lengths};
  }
  std::int64_t features() const override { return kChannels * features_; }

 private:
  static torch::nn::Conv2d layer(std::int64_t in, std::int64_t pitches,
                                 std::int64_t stride) {
    return torch::nn::Conv2d(
        torch::nn::Conv2dOptions(in, kChannels, {pitches, kTimeKernel})
            .stride({2, stride})
            .padding({pitches / 2, kTimeKernel / 2}));
  }

  static torch::Tensor beyond(const std::vector<std::int64_t>& lengths,
                              std::int64_t frames) {
    const torch::Tensor ends = torch::tensor(lengths).view({-1, 1, 1, 1});
    return torch::arange(frames).view({1, 1, 1, -1}).ge(ends);
  }

  const std::int64_t features_;
  torch::nn::Conv2d first_;
  torch::nn::BatchNorm2d first_norm_;
  torch::nn::Conv2d second_;
  torch::nn::BatchNorm2d second_norm_;
};

struct Shape {
  std::int64_t layers;
  std::int64_t width;
  std::int64_t directions;
  std::int64_t lookahead;
  double dropped;
};

class DeepSpeech final : public Acoustic {
 public:
  DeepSpeech(std::shared_ptr<Front> front, const Shape& shape, std::int64_t letters)
      : shape_(shape), front_(register_module("front", std::move(front))) {
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      const std::string number = std::to_string(i);
      if (i > 0)
        norms_.push_back(
            register_module("norm" + number, torch::nn::BatchNorm1d(shape.width)));
      const auto in = i == 0 ? front_->features() : shape.width;
      lstms_.push_back(register_module(
          "lstm" + number, torch::nn::LSTM(torch::nn::LSTMOptions(in, shape.width)
                                               .bidirectional(shape.directions == 2))));
    }
    if (looks_ahead())
      ahead_ = register_module(
          "ahead", torch::nn::Conv1d(torch::nn::Conv1dOptions(shape.width, shape.width,
                                                              shape.lookahead + 1)
                                         .groups(shape.width)
                                         .bias(false)));
    last_norm_ = register_module("last_norm", torch::nn::BatchNorm1d(shape.width));
    last_ = register_module(
        "last",
        torch::nn::Linear(torch::nn::LinearOptions(shape.width, letters).bias(false)));
  }

  Frames forward(const Frames& spectrograms, at::Generator* draws) override {
    const Frames front = front_->forward(spectrograms);
    PackedSequence x = pack(front);
    for (std::size_t i = 0; i < lstms_.size(); ++i) {
      if (i > 0) x = with(x, norms_[i - 1](x.data()));
      x = std::get<0>(lstms_[i]->forward_with_packed_input(x));
      torch::Tensor data = x.data();
      if (shape_.directions == 2)
        data = data.slice(1, 0, shape_.width) + data.slice(1, shape_.width);
      if (draws != nullptr) data = dropout(data, shape_.dropped, *draws);
      x = with(x, data);
    }
    if (looks_ahead()) x = pack(look_ahead(unpack(x, front.lengths)));
    return unpack(with(x, torch::log_softmax(last_(last_norm_(x.data())), 1)),
                  front.lengths);
  }

  /// LSTMs as torch does it: uniform within 1 / sqrt(width), biases zero.
  void draw_weights(std::uint64_t seed) {
    initialise(*this, seed);
    const torch::NoGradGuard no_grad;
    for (const torch::nn::LSTM& lstm : lstms_)
      for (torch::Tensor& weight : lstm->parameters()) {
        if (weight.dim() < 2) {
          weight.zero_();
          continue;
        }
        const double given = std::sqrt(6.0 / static_cast<double>(weight.size(1)));
        weight.mul_(1 / std::sqrt(static_cast<double>(shape_.width)) / given);
      }
  }

 private:
  bool looks_ahead() const { return shape_.directions == 1 && shape_.lookahead > 0; }

  Frames look_ahead(const Frames& x) {
    const torch::Tensor padded =
        torch::constant_pad_nd(x.values.transpose(1, 2), {0, shape_.lookahead});
    return {clipped(ahead_(padded)).transpose(1, 2), x.lengths};
  }

  const Shape shape_;
  std::shared_ptr<Front> front_;
  std::vector<torch::nn::BatchNorm1d> norms_;
  std::vector<torch::nn::LSTM> lstms_;
  torch::nn::Conv1d ahead_ = nullptr;
  torch::nn::BatchNorm1d last_norm_ = nullptr;
  torch::nn::Linear last_ = nullptr;
};

}  // namespace

std::shared_ptr<Acoustic> make_acoustic(Params& params, std::int64_t features,
                                        std::int64_t letters, std::uint64_t seed) {
  const std::string kind = params.choice("front", {"conv2d", "conv1d", "none"},
                                         "convolutions before the LSTMs");
  Shape shape{};
  shape.layers = params.integer("layers", 5, 1, 64, "LSTMs, one on another");
  shape.width = params.integer("width", 800, 1, 1 << 14, "of each, in each direction");
  shape.directions = params.integer("directions", 1, 1, 2, "2: backward, too");
  shape.lookahead = params.integer("lookahead", 20, 0, 1000,
                                   "frames that the end of one direction sees ahead");
  shape.dropped = params.number("dropout", 0, 0, 0.99, "share dropped after each LSTM");
  std::shared_ptr<Front> front;
  if (kind == "conv2d") front = std::make_shared<ImageFront>(features);
  if (kind == "conv1d") front = std::make_shared<TimeFront>(features, shape.width);
  if (kind == "none") front = std::make_shared<NoFront>(features);
  auto made = std::make_shared<DeepSpeech>(std::move(front), shape, letters);
  made->draw_weights(seed);
  return made;
}

}  // namespace topknot::train
