// SPDX-License-Identifier: Apache-2.0
//
// Photographs in folders, as ImageNet is commonly kept: FOLDER/{train,val}/CLASS/*.JPEG.
// Classes have the alphabetical order of their folders and images that of their paths, so that
// every rank sees the same set. Pictures are decoded when they are read.
//
// A test image is the middle of the picture, whose shorter side is scaled to 8/7 of `side`. A
// training image is a random part: 8 to 100 % of the area at an aspect ratio of 3:4 to 4:3
// (Szegedy et al., "Going deeper with convolutions", CVPR 2015).
#include "data/formats/image_folders.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <vector>

#include "data/exact.h"
#include "data/formats/jpeg.h"
#include "data/formats/resize.h"
#include "data/formats/stored_images.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostClasses = 100'000;

bool is_jpeg(const fs::path& file) {
  std::string extension = file.extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return extension == ".jpeg" || extension == ".jpg";
}

/// The entries of a folder in alphabetical order, without names that begin with a dot.
std::vector<fs::path> listing(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (!at->path().filename().string().starts_with('.')) found.push_back(at->path());
  if (error)
    throw DataError(about(folder) + "cannot be listed (" + error.message() + ").");
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> class_names(const fs::path& half) {
  std::vector<std::string> names;
  std::error_code error;
  bool loose = false;
  for (const fs::path& path : listing(half)) {
    if (fs::is_directory(path, error)) names.push_back(path.filename().string());
    loose = loose || is_jpeg(path);
  }
  if (names.empty() && loose)
    throw DataError(about(half) +
                    "its pictures are not in a folder for each class; sort them into "
                    "CLASS/*.JPEG.");
  if (names.size() < 2 || names.size() > kMostClasses)
    throw DataError(about(half) + "has " + std::to_string(names.size()) +
                    " folders; it needs one for each of at least two classes.");
  return names;
}

class ImageFolders final : public Images {
 public:
  ImageFolders(const fs::path& half, const std::vector<std::string>& names,
               std::uint32_t side)
      : side_(side), classes_(static_cast<int>(names.size())) {
    for (std::size_t c = 0; c < names.size(); ++c) {
      const std::size_t before = files_.size();
      for (fs::path& file : listing(half / names[c]))
        if (is_jpeg(file)) files_.push_back({std::move(file), static_cast<int>(c)});
      if (files_.size() == before)
        throw DataError(about(half / names[c]) + "there is no *.JPEG in it.");
    }
  }

  std::size_t size() const override { return files_.size(); }
  int classes() const override { return classes_; }
  ImageShape shape() const override { return {3, side_, side_}; }

  int label(std::size_t i) const override {
    check_index(i, size());
    return files_[i].label;
  }

  void read(std::size_t i, std::span<std::uint8_t> pixels) const override {
    check_read(i, *this, pixels.size());
    const Picture picture = read_jpeg(files_[i].path, side_ * 8 / 7);
    const double edge = std::min(picture.height, picture.width) * (7.0 / 8.0);
    resize(picture, {(picture.height - edge) / 2, (picture.width - edge) / 2, edge, edge},
           side_, pixels);
  }

  void read_part(std::size_t i, std::span<std::uint8_t> pixels,
                 core::Random& random) const override {
    check_read(i, *this, pixels.size());
    // At twice the side, a part with a quarter of the area need not be enlarged.
    const Picture picture = read_jpeg(files_[i].path, 2 * side_);
    resize(picture, draw_window(picture, random), side_, pixels);
  }

 private:
  struct File {
    fs::path path;
    int label;
  };

  /// Draws four numbers.
  static Window draw_window(const Picture& picture, core::Random& random) {
    const double whole_height = picture.height;
    const double whole_width = picture.width;
    const double area = (0.08 + 0.92 * random.uniform()) * whole_height * whole_width;
    const double tilt = around_zero(random);  // its sign says which side is longer
    const double aspect = tilt < 0 ? 1 / (1 - tilt / 3) : 1 + tilt / 3;
    Window window;
    window.width = std::clamp(std::sqrt(area * aspect), 1.0, whole_width);
    window.height = std::clamp(std::sqrt(area / aspect), 1.0, whole_height);
    window.left = random.uniform() * (whole_width - window.width);
    window.top = random.uniform() * (whole_height - window.height);
    return window;
  }

  std::uint32_t side_;
  int classes_;
  std::vector<File> files_;
};

}  // namespace

std::unique_ptr<Images> open_image_folders(const fs::path& folder, Split split,
                                           Params& params) {
  const auto side = static_cast<std::uint32_t>(
      params.integer("side", 224, 8, 2048, "pixels a side of what is read"));
  const fs::path half = folder / (split == Split::train ? "train" : "val");
  const fs::path other = folder / (split == Split::train ? "val" : "train");
  const std::vector<std::string> names = class_names(half);
  std::error_code error;
  if (fs::is_directory(other, error)) {
    const std::vector<std::string> others = class_names(other);
    if (names != others) {
      const auto [here, there] =
          std::mismatch(names.begin(), names.end(), others.begin(), others.end());
      throw DataError(about(folder) +
                      "train and val have different classes; the first difference is " +
                      in_quotes(here != names.end() ? *here : *there) + ".");
    }
  }
  return std::make_unique<ImageFolders>(half, names, side);
}

}  // namespace topknot::data
