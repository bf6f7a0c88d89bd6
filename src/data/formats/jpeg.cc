// SPDX-License-Identifier: Apache-2.0
//
// libjpeg reports errors by a call that must not return. Ours jumps back into `Decoder`, to
// one of three functions that hold nothing but numbers and pointers while libjpeg works; so
// no object is ever jumped over.
#include "data/formats/jpeg.h"

#include <csetjmp>
#include <cstdio>  // jpeglib.h wants FILE

#include <jpeglib.h>
//
#include <jerror.h>

#include <algorithm>

#include "topknot/error.h"

namespace topknot::data {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 28;
constexpr std::size_t kMostPixels = std::size_t{1} << 27;
constexpr int kMostScans =
    500;  // of a progressive file; with more, a small file could take hours

struct ErrorReport : jpeg_error_mgr {
  std::jmp_buf back;
  char sentence[JMSG_LENGTH_MAX];
};

[[noreturn]] void jump_back(j_common_ptr codec) {
  auto* const report = static_cast<ErrorReport*>(codec->err);
  report->format_message(codec, report->sentence);
  std::longjmp(report->back, 1);
}

// libjpeg warns where it invents pixels that the file lacks.
void consider(j_common_ptr codec, int level) {
  if (level >= 0) return;
  const int code = codec->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR)
    return;
  jump_back(codec);
}

void count_scans(j_common_ptr codec) {
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMostScans)
    ERREXIT(codec, JERR_BAD_PROGRESSION);
}

class Decoder {
 public:
  Decoder() {
    codec_.err = jpeg_std_error(&report_);
    report_.error_exit = jump_back;
    report_.emit_message = consider;
    report_.output_message = [](j_common_ptr) {};
    report_.sentence[0] = 0;
    progress_.progress_monitor = count_scans;
  }
  ~Decoder() { jpeg_destroy_decompress(&codec_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Each returns false where the file is broken; sentence() then says how.
  bool open(const std::uint8_t* bytes, std::size_t size) {
    if (setjmp(report_.back) != 0) return false;
    jpeg_create_decompress(&codec_);
    codec_.progress = &progress_;
    jpeg_mem_src(&codec_, bytes, static_cast<unsigned long>(size));
    jpeg_read_header(&codec_, TRUE);
    return true;
  }

  bool start(std::uint32_t least_side) {
    if (setjmp(report_.back) != 0) return false;
    const unsigned shorter = std::min(codec_.image_width, codec_.image_height);
    codec_.scale_num = 1;
    codec_.scale_denom = 1;
    while (codec_.scale_denom < 8 && shorter / (codec_.scale_denom * 2) >= least_side)
      codec_.scale_denom *= 2;
    const bool printed = codec_.jpeg_color_space == JCS_CMYK ||  // four inks
                         codec_.jpeg_color_space == JCS_YCCK;
    codec_.out_color_space = printed ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&codec_);
    return true;
  }

  /// `rows` are output_height pointers.
  bool read(std::uint8_t** rows) {
    if (setjmp(report_.back) != 0) return false;
    while (codec_.output_scanline < codec_.output_height)
      jpeg_read_scanlines(&codec_, rows + codec_.output_scanline,
                          codec_.output_height - codec_.output_scanline);
    jpeg_finish_decompress(&codec_);
    return true;
  }

  const char* sentence() const { return report_.sentence; }
  const jpeg_decompress_struct& codec() const { return codec_; }

 private:
  jpeg_decompress_struct codec_{};
  jpeg_progress_mgr progress_{};
  ErrorReport report_{};
};

/// Cyan, magenta, yellow and black, inverted as Adobe writes them, to red, green and blue.
void mix_inks(const Bytes& inks, Bytes& colours) {
  colours.resize(inks.size() / 4 * 3);
  for (std::size_t i = 0, o = 0; i + 3 < inks.size(); i += 4)
    for (std::size_t c = 0; c < 3; ++c)
      colours[o++] = static_cast<std::uint8_t>(inks[i + c] * inks[i + 3] / 255);
}

[[noreturn]] void refuse(const std::filesystem::path& file, const char* why) {
  throw DataError(about(file) + "is not a JPEG that can be decoded (" + why + ").");
}

}  // namespace

Picture read_jpeg(const std::filesystem::path& file, std::uint32_t least_side) {
  const Bytes bytes = read_file(file, kMostFileBytes);
  Decoder decoder;
  if (!decoder.open(bytes.data(), bytes.size())) refuse(file, decoder.sentence());
  const std::size_t pixels =
      std::size_t{decoder.codec().image_width} * decoder.codec().image_height;
  if (pixels == 0 || pixels > kMostPixels) refuse(file, "it has too many pixels");
  if (!decoder.start(least_side)) refuse(file, decoder.sentence());
  Picture picture;
  picture.height = decoder.codec().output_height;
  picture.width = decoder.codec().output_width;
  const auto colours = static_cast<std::size_t>(decoder.codec().output_components);
  const std::size_t row = picture.width * colours;
  picture.pixels.resize(row * picture.height);
  std::vector<std::uint8_t*> rows(picture.height);
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = picture.pixels.data() + y * row;
  if (!decoder.read(rows.data())) refuse(file, decoder.sentence());
  if (colours == 4) {
    Bytes mixed;
    mix_inks(picture.pixels, mixed);
    picture.pixels = std::move(mixed);
  }
  return picture;
}

}  // namespace topknot::data
