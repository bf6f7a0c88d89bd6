// SPDX-License-Identifier: Apache-2.0
//
// Tiny sets of text, speech and ratings in the real formats.
#pragma once

#include <string>
#include <vector>

#include "data/generated/grammar.h"
#include "data/ratings.h"
#include "data/speech.h"
#include "data/wordpiece.h"
#include "data/write_files.h"

namespace topknot::data {

/// The language of all texts here.
inline const Grammar& tiny_language() {
  static const Grammar grammar(1, 200);
  return grammar;
}

// ---- text

/// WikiText's three parts: headings, empty lines and paragraphs. The training part has every
/// word.
inline void write_wikitext(const std::filesystem::path& folder, std::size_t lines) {
  core::Random random(1);
  for (const std::string part : {"train", "valid", "test"}) {
    std::string text;
    if (part == "train") {
      for (const std::string& word : tiny_language().words()) text += ' ' + word;
      text += " <unk> \n";
    }
    for (std::size_t i = 0; i < (part == "train" ? lines : lines / 4 + 1); ++i) {
      const std::size_t topic = random.below(tiny_language().topics());
      text += " \n " + tiny_language().sentence(topic, random) + ' ' +
              tiny_language().sentence(topic, random) + " <unk> \n";
    }
    write_file(folder / ("wiki." + part + ".tokens"), text);
  }
}

/// A vocabulary of word pieces with every word of the language.
inline void write_vocabulary(const std::filesystem::path& file) {
  std::string text = "[PAD]\n[unused0]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (char c = 'a'; c <= 'z'; ++c) text += std::string(1, c) + "\n##" + c + "\n";
  for (const std::string& word : tiny_language().words()) text += word + "\n";
  write_file(file, text);
}

/// WikiExtractor's output: `documents` to train on in two shards, and a quarter to test.
inline void write_shards(const std::filesystem::path& folder, std::size_t documents) {
  core::Random random(2);
  std::size_t number = 0;
  const auto shard = [&](std::size_t count) {
    std::string text;
    for (std::size_t d = 0; d < count; ++d) {
      const std::string id = std::to_string(++number);
      const std::size_t topic = random.below(tiny_language().topics());
      text += "<doc id=\"" + id + "\" url=\"https://example.org/" + id +
              "\" title=\"Title " + id + "\">\nTitle " + id + "\n\n";
      for (int s = 0; s < 6; ++s) {
        std::string sentence = tiny_language().sentence(topic, random);
        sentence.erase(sentence.size() - 2, 1);  // no space before the full stop
        sentence[0] = static_cast<char>(sentence[0] - 'a' + 'A');
        text += sentence + (s == 2 ? "\n" : " ");
      }
      text += "\n\n</doc>\n";
    }
    return text;
  };
  write_file(folder / "train/AA/wiki_00", shard(documents / 2));
  write_file(folder / "train/AA/wiki_01", shard(documents - documents / 2));
  write_file(folder / "valid/AA/wiki_02", shard(documents / 4 + 2));
}

// ---- speech

inline void append_little(std::string& bytes, std::uint32_t value, int count) {
  for (int b = 0; b < count; ++b) bytes += static_cast<char>(value >> (8 * b));
}

/// 16-bit samples in either byte order.
inline std::string pcm(const std::vector<float>& samples, bool big) {
  std::string bytes;
  for (const float sample : samples) {
    const auto value =
        static_cast<std::uint16_t>(static_cast<std::int16_t>(sample * 32768.0F));
    append_little(
        bytes, big ? static_cast<std::uint16_t>((value << 8) | (value >> 8)) : value, 2);
  }
  return bytes;
}

inline std::string wave_file(const std::vector<float>& samples) {
  const std::string body = pcm(samples, false);
  std::string bytes = "RIFF";
  append_little(bytes, static_cast<std::uint32_t>(36 + body.size()), 4);
  bytes += "WAVEfmt ";
  append_little(bytes, 16, 4);
  append_little(bytes, 1, 2);
  append_little(bytes, 1, 2);
  append_little(bytes, kSampleRate, 4);
  append_little(bytes, 2 * kSampleRate, 4);
  append_little(bytes, 2, 2);
  append_little(bytes, 16, 2);
  bytes += "data";
  append_little(bytes, static_cast<std::uint32_t>(body.size()), 4);
  return bytes + body;
}

inline std::string sphere_file(const std::vector<float>& samples, bool big = true) {
  std::string bytes =
      "NIST_1A\n   1024\nsample_count -i " + std::to_string(samples.size()) +
      "\nsample_n_bytes -i 2\nchannel_count -i 1\nsample_byte_format -s2 " +
      (big ? "10" : "01") + "\nsample_rate -i 16000\nsample_coding -s3 pcm\nend_head\n";
  bytes.resize(1024, ' ');
  return bytes + pcm(samples, big);
}

/// AN4 of generated utterances: wave files for testing; for training sphere and raw too.
inline void write_an4(const std::filesystem::path& folder, std::size_t train,
                      std::size_t test) {
  for (const Split split : {Split::train, Split::test}) {
    const bool training = split == Split::train;
    const std::size_t count = training ? train : test;
    const auto speech =
        open_speech("generated:size=" + std::to_string(4 * count), {}, split);
    std::string ids, said;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string id = "an" + std::to_string(i) + "-abcd-b";
      const std::string path =
          std::string(training ? "an4_clstk" : "an4test_clstk") + "/abcd/" + id;
      ids += path + "\n";
      said +=
          (training ? "<s> " + speech->transcript(i) + " </s>" : speech->transcript(i)) +
          " (" + id + ")\n";
      const std::vector<float> samples = speech->samples(i);
      const std::size_t kind = training ? i % 3 : 0;
      write_file(folder / "wav" /
                     (path + (kind == 0   ? ".wav"
                              : kind == 1 ? ".sph"
                                          : ".raw")),
                 kind == 0   ? wave_file(samples)
                 : kind == 1 ? sphere_file(samples)
                             : pcm(samples, true));
    }
    const std::string half = training ? "an4_train" : "an4_test";
    write_file(folder / "etc" / (half + ".fileids"), ids);
    write_file(folder / "etc" / (half + ".transcription"), said);
  }
}

// ---- ratings

/// MovieLens' ratings.dat ("::") or ratings.csv (","), from latent factors.
inline void write_ratings(const std::filesystem::path& file, const std::string& between) {
  const Ratings made = open_ratings("generated:users=60,items=400,each=8", {});
  std::string text = between == "," ? "userId,movieId,rating,timestamp\n" : "";
  const auto line = [&](std::uint32_t user, std::uint32_t item, int time) {
    text += std::to_string(user + 1) + between + std::to_string(10 * item + 3) + between +
            (between == "," ? "3.5" : "4") + between + std::to_string(time) + "\n";
  };
  for (const Ratings::Pair& pair : made.train()) line(pair.user, pair.item, 1000);
  for (std::uint32_t u = 0; u < made.users(); ++u) line(u, made.held_out(u), 2000);
  write_file(file, text);
}

/// The NCF paper's three files of the same ratings.
inline void write_ncf(const std::filesystem::path& folder, const std::string& name) {
  const Ratings made = open_ratings("generated:users=60,items=400,each=8", {});
  std::string train, test, negative;
  for (const Ratings::Pair& pair : made.train())
    train += std::to_string(pair.user) + "\t" + std::to_string(pair.item) + "\t1\n";
  for (std::uint32_t u = 0; u < made.users(); ++u) {
    const std::string item = std::to_string(made.held_out(u));
    test += std::to_string(u) + "\t" + item + "\t5\t978824351\n";
    negative.append("(").append(std::to_string(u)).append(",").append(item).append(")");
    for (const std::uint32_t other : made.negatives(u))
      negative.append("\t").append(std::to_string(other));
    negative += "\n";
  }
  write_file(folder / (name + ".train.rating"), train);
  write_file(folder / (name + ".test.rating"), test);
  write_file(folder / (name + ".test.negative"), negative);
}

}  // namespace topknot::data
