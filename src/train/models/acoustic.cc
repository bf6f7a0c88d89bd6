// SPDX-License-Identifier: Apache-2.0
//
// acoustic: DeepSpeech 2 (Amodei et al., ICML 2016) in the size that the papers on sparse
// gradients train on AN4. Convolutions halve the frames, LSTMs go over them with norms
// between, and a layer reads letters off. In one direction, a last convolution looks ahead
// over the next 20 frames; in two, the directions are added up. With its defaults it has
// 27,569,568 weights, in two directions 54,823,168.
//
// Between the layers there is no padding, only real frames: norms see nothing else, and the LSTM
// that runs backward starts at each utterance's own end. The convolutions' norms do see padding,
// as in the papers. Inside an LSTM the frames are padded: with torch's packed sequences the
// backward pass would clear the whole gradient once for every frame.

#include <cmath>
#include <string>

#include "topknot/error.h"
#include "train/models/registry.h"
#include "train/task.h"

namespace topknot::train {
namespace {

constexpr std::int64_t kChannels = 32;
constexpr std::int64_t kTimeKernel = 11;

torch::Tensor clipped(const torch::Tensor& x) { return torch::hardtanh(x, 0, 20); }

/// The real frames of a batch, ordered by time: those of all utterances at one time are
/// neighbours.
class Heard {
 public:
  explicit Heard(const Frames& frames)
      : times_(frames.values.size(1)), utterances_(frames.values.size(0)) {
    std::vector<std::int64_t> places;
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(
        times_ * utterances_));  // by position, its index among the real frames
    for (std::int64_t place = 0; place < times_ * utterances_; ++place)
      if (place / utterances_ < length(frames, place)) {
        numbers[static_cast<std::size_t>(place)] =
            static_cast<std::int64_t>(places.size());
        places.push_back(place);
      }
    std::vector<std::int64_t> mirrored;
    for (const std::int64_t place : places) {
      const std::int64_t time = length(frames, place) - 1 - place / utterances_;
      mirrored.push_back(
          numbers[static_cast<std::size_t>(time * utterances_ + place % utterances_)]);
    }
    places_ = torch::tensor(places);
    mirrored_ = torch::tensor(mirrored);
  }

  /// (utterance, frame, feature) to (heard, feature).
  torch::Tensor collect(const torch::Tensor& padded) const {
    return padded.transpose(0, 1).flatten(0, 1).index_select(0, places_);
  }
  /// Reverses collect(), with zeros for padding.
  torch::Tensor spread(const torch::Tensor& heard) const {
    return torch::zeros({times_ * utterances_, heard.size(1)})
        .index_copy(0, places_, heard)
        .view({times_, utterances_, -1})
        .transpose(0, 1);
  }
  /// Reverses every utterance in time.
  torch::Tensor mirror(const torch::Tensor& heard) const {
    return heard.index_select(0, mirrored_);
  }

 private:
  std::int64_t length(const Frames& frames, std::int64_t place) const {
    return frames.lengths[static_cast<std::size_t>(place % utterances_)];
  }

  const std::int64_t times_;
  const std::int64_t utterances_;
  torch::Tensor places_;
  torch::Tensor mirrored_;
};

/// The layers before the LSTMs. All but NoFront halve the number of frames.
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

/// Convolutions over time alone, which are cheap.
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

/// Convolutions over time and pitch, as in DeepSpeech.
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

class DeepSpeech final : public AcousticModel {
 public:
  DeepSpeech(std::shared_ptr<Front> front, const Shape& shape, std::int64_t letters)
      : shape_(shape), front_(register_module("front", std::move(front))) {
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      const std::string number = std::to_string(i);
      if (i > 0)
        norms_.push_back(
            register_module("norm" + number, torch::nn::BatchNorm1d(shape.width)));
      const auto in = i == 0 ? front_->features() : shape.width;
      onward_.push_back(register_module("lstm" + number, lstm(in)));
      if (shape.directions == 2)
        backward_.push_back(register_module("lstm" + number + "_back", lstm(in)));
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
    const Heard heard(front);
    torch::Tensor x = heard.collect(front.values);
    for (std::size_t i = 0; i < onward_.size(); ++i) {
      if (i > 0) x = norms_[i - 1](x);
      torch::Tensor y = recur(onward_[i], heard, x);
      if (shape_.directions == 2)
        y = y + heard.mirror(recur(backward_[i], heard, heard.mirror(x)));
      x = draws == nullptr ? y : dropout(y, shape_.dropped, *draws);
    }
    if (looks_ahead()) x = heard.collect(look_ahead(heard.spread(x)));
    return {heard.spread(torch::log_softmax(last_(last_norm_(x)), 1)), front.lengths};
  }

  /// The LSTMs' weights as torch's default: uniform within 1 / sqrt(width), biases zero.
  void draw_weights(std::uint64_t seed) {
    initialise(*this, seed);
    const torch::NoGradGuard no_grad;
    for (const auto* direction : {&onward_, &backward_})
      for (const torch::nn::LSTM& lstm : *direction)
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

  torch::nn::LSTM lstm(std::int64_t in) const {
    return torch::nn::LSTM(torch::nn::LSTMOptions(in, shape_.width).batch_first(true));
  }

  static torch::Tensor recur(torch::nn::LSTM& lstm, const Heard& heard,
                             const torch::Tensor& x) {
    return heard.collect(std::get<0>(lstm(heard.spread(x))));
  }

  torch::Tensor look_ahead(const torch::Tensor& x) {
    const torch::Tensor padded =
        torch::constant_pad_nd(x.transpose(1, 2), {0, shape_.lookahead});
    return clipped(ahead_(padded)).transpose(1, 2);
  }

  const Shape shape_;
  std::shared_ptr<Front> front_;
  std::vector<torch::nn::BatchNorm1d> norms_;
  std::vector<torch::nn::LSTM> onward_;
  std::vector<torch::nn::LSTM> backward_;
  torch::nn::Conv1d ahead_ = nullptr;
  torch::nn::BatchNorm1d last_norm_ = nullptr;
  torch::nn::Linear last_ = nullptr;
};

}  // namespace

std::shared_ptr<AcousticModel> model::acoustic(Params& params,
                                               const AcousticShape& data) {
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
  if (kind == "conv2d") front = std::make_shared<ImageFront>(data.features);
  if (kind == "conv1d") front = std::make_shared<TimeFront>(data.features, shape.width);
  if (kind == "none") front = std::make_shared<NoFront>(data.features);
  auto made = std::make_shared<DeepSpeech>(std::move(front), shape, data.letters);
  made->draw_weights(data.seed);
  return made;
}

}  // namespace topknot::train
