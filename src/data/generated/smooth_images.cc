// SPDX-License-Identifier: Apache-2.0
//
// Generated images. Each class has two prototypes, which are smooth random fields. An image is
// a prototype of its class, shifted cyclically by up to three quarters of its side, mirrored
// half of the time, at a random contrast, plus another smooth field, the veil, and noise. The
// mean over a class is almost grey, so single pixels tell little about the class; a model that
// finds shapes wherever they are can learn nearly all.
//
// An image is a pure function of the seed, the half and its number, by arithmetic that rounds
// alike everywhere: the same bytes on every machine. Only the prototypes are kept in memory.
#include <algorithm>
#include <vector>

#include "data/exact.h"
#include "data/formats/stored_images.h"
#include "data/generated/generated.h"

namespace topknot::data {
namespace {

constexpr std::uint32_t kPrototypes = 2;     // for each class
constexpr std::uint32_t kPrototypeGrid = 5;  // knots a side of a prototype
constexpr std::uint32_t kVeilGrid = 4;       // and of the veil
constexpr float kPrototypeAmplitude = 48;
constexpr float kVeilAmplitude = 20;

/// A field over the torus, side x side, through grid x grid random knots.
void smooth_field(core::Random& random, std::uint32_t grid, std::uint32_t side,
                  std::span<float> field) {
  float knots[8][8];
  for (std::uint32_t y = 0; y < grid; ++y)
    for (std::uint32_t x = 0; x < grid; ++x) knots[y][x] = bell(random);
  // Where a pixel lies between two knots, eased at both ends.
  struct Place {
    std::uint32_t before, after;
    float weight;
  };
  std::vector<Place> places(side);
  for (std::uint32_t p = 0; p < side; ++p) {
    const float at = static_cast<float>(p * grid) / static_cast<float>(side);
    const auto before = static_cast<std::uint32_t>(at);
    const float t = at - static_cast<float>(before);
    places[p] = {before, (before + 1) % grid, t * t * (3 - 2 * t)};
  }
  for (std::uint32_t y = 0; y < side; ++y) {
    const auto [top, bottom, down] = places[y];
    for (std::uint32_t x = 0; x < side; ++x) {
      const auto [left, right, along] = places[x];
      const float above = knots[top][left] * (1 - along) + knots[top][right] * along;
      const float below =
          knots[bottom][left] * (1 - along) + knots[bottom][right] * along;
      field[std::size_t{y} * side + x] = above * (1 - down) + below * down;
    }
  }
}

class Generated final : public Images {
 public:
  Generated(Split split, Params& params)
      : classes_(static_cast<int>(params.integer("classes", 10, 2, 1000, "classes"))),
        size_(static_cast<std::size_t>(
            params.integer("size", 50'000, 1, 100'000'000,
                           "images of the training half; the test half has a fifth"))),
        seed_(static_cast<std::uint64_t>(
            params.integer("seed", 1, 0, INT64_MAX, "what the images are drawn from"))),
        shape_{.channels = static_cast<std::uint32_t>(
                   params.integer("channels", 3, 1, 3, "colours")),
               .height = 0,
               .width = 0},
        noise_(static_cast<float>(
            params.number("noise", 12, 0, 128, "deviation of each pixel, of 255"))) {
    shape_.height = shape_.width =
        static_cast<std::uint32_t>(params.integer("side", 32, 4, 512, "pixels a side"));
    if (split == Split::test) size_ = (size_ + 4) / 5;
    stream_ = core::random_bits(seed_, split == Split::train ? 1 : 2);
    draw_prototypes();
  }

  std::size_t size() const override { return size_; }
  int classes() const override { return classes_; }
  ImageShape shape() const override { return shape_; }

  int label(std::size_t i) const override {
    check_index(i, size_);
    core::Random random(core::random_bits(stream_, i));
    return draw_label(random);
  }

  void read(std::size_t i, std::span<std::uint8_t> pixels) const override {
    check_read(i, *this, pixels.size());
    core::Random random(core::random_bits(stream_, i));
    const auto label = static_cast<std::size_t>(draw_label(random));
    const std::size_t prototype = label * kPrototypes + random.below(kPrototypes);
    const std::uint32_t side = shape_.width;
    const auto across = static_cast<std::uint32_t>(random.below(side * 3 / 4));
    const auto down = static_cast<std::uint32_t>(random.below(side * 3 / 4));
    const bool mirrored = (random.bits() >> 63) != 0;
    const float contrast = 0.6F + 0.8F * random.uniform();
    std::vector<float> veil(std::size_t{side} * side);
    for (std::size_t c = 0; c < shape_.channels; ++c) {
      smooth_field(random, kVeilGrid, side, veil);
      const float* const field =
          prototypes_.data() + prototype * shape_.size() + c * veil.size();
      for (std::uint32_t y = 0; y < side; ++y) {
        const float* const row = field + std::size_t{(y + down) % side} * side;
        for (std::uint32_t x = 0; x < side; ++x) {
          const std::uint32_t from = ((mirrored ? side - 1 - x : x) + across) % side;
          const std::size_t at = std::size_t{y} * side + x;
          const float value = 128 + kPrototypeAmplitude * contrast * row[from] +
                              kVeilAmplitude * veil[at] + noise_ * bell(random);
          pixels[c * veil.size() + at] =
              static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
        }
      }
    }
  }

 private:
  int draw_label(core::Random& random) const {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(classes_)));
  }

  void draw_prototypes() {
    const std::size_t count = static_cast<std::size_t>(classes_) * kPrototypes;
    prototypes_.resize(count * shape_.size());
    core::Random random(seed_);
    const std::size_t plane = std::size_t{shape_.height} * shape_.width;
    for (std::size_t at = 0; at < prototypes_.size(); at += plane)
      smooth_field(random, kPrototypeGrid, shape_.width,
                   std::span(prototypes_).subspan(at, plane));
  }

  int classes_;
  std::size_t size_;
  std::uint64_t seed_;
  ImageShape shape_;
  float noise_;
  std::uint64_t stream_ = 0;
  std::vector<float> prototypes_;
};

}  // namespace

std::unique_ptr<Images> make_images(Split split, Params& params) {
  return std::make_unique<Generated>(split, params);
}

}  // namespace topknot::data
