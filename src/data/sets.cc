// SPDX-License-Identifier: Apache-2.0
#include "data/sets.h"

#include <algorithm>

#include "data/file.h"
#include "topknot/error.h"
#include "topknot/params.h"

namespace topknot::data {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string_view> kIdxMarks = {
    "train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte",
    "t10k-images-idx3-ubyte.gz"};

std::vector<Set> image_sets() {
  return {
      {.name = "fashion-mnist",
       .summary = "70,000 grey images of clothes, 28 x 28, 10 classes",
       .licence = "MIT",
       .folder = "fashion-mnist",
       .megabytes = 30.9,
       .archives = {{"train-images-idx3-ubyte.gz",
                     "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
                     "train-images-idx3-ubyte.gz",
                     "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
                    {"train-labels-idx1-ubyte.gz",
                     "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
                     "train-labels-idx1-ubyte.gz",
                     "md5:25c81989df183df01b3e8a0aad5dffbe"},
                    {"t10k-images-idx3-ubyte.gz",
                     "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
                     "t10k-images-idx3-ubyte.gz",
                     "md5:bef4ecab320f06d8554ea6380940ec79"},
                    {"t10k-labels-idx1-ubyte.gz",
                     "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
                     "t10k-labels-idx1-ubyte.gz",
                     "md5:bb300cfdad3c16e7a12a480ee83cd310"}},
       .marks = kIdxMarks,
       .by_hand = "apt install dataset-fashion-mnist puts it into "
                  "/usr/share/datasets/fashion-mnist",
       .system_folder = "/usr/share/datasets/fashion-mnist"},
      {.name = "mnist",
       .summary = "70,000 grey images of digits, 28 x 28, 10 classes",
       .licence = "CC BY-SA 3.0",
       .folder = "mnist",
       .megabytes = 11.6,
       .archives = {{"train-images-idx3-ubyte.gz",
                     "https://ossci-datasets.s3.amazonaws.com/mnist/"
                     "train-images-idx3-ubyte.gz",
                     "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"},
                    {"train-labels-idx1-ubyte.gz",
                     "https://ossci-datasets.s3.amazonaws.com/mnist/"
                     "train-labels-idx1-ubyte.gz",
                     "md5:d53e105ee54ea40749a09fcbcd1e9432"},
                    {"t10k-images-idx3-ubyte.gz",
                     "https://ossci-datasets.s3.amazonaws.com/mnist/"
                     "t10k-images-idx3-ubyte.gz",
                     "md5:9fb629c4189551a2d022fa330f9573f3"},
                    {"t10k-labels-idx1-ubyte.gz",
                     "https://ossci-datasets.s3.amazonaws.com/mnist/"
                     "t10k-labels-idx1-ubyte.gz",
                     "md5:ec29112dd5afa0611ce80d1b7f02629c"}},
       .marks = kIdxMarks},
      {.name = "cifar10",
       .summary = "60,000 colour images, 32 x 32, 10 classes",
       .licence = "none stated; cite Krizhevsky 2009",
       .folder = "cifar-10-batches-bin",
       .megabytes = 170.1,
       .packing = Packing::tar,
       .archives = {{"cifar-10-binary.tar.gz",
                     "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                     "md5:c32a1d4ab5d03f1284b67883e8d87530"}},
       .members = {"cifar-10-batches-bin/data_batch_1.bin",
                   "cifar-10-batches-bin/data_batch_2.bin",
                   "cifar-10-batches-bin/data_batch_3.bin",
                   "cifar-10-batches-bin/data_batch_4.bin",
                   "cifar-10-batches-bin/data_batch_5.bin",
                   "cifar-10-batches-bin/test_batch.bin", "cifar-10-batches-bin/"},
       .marks = {"data_batch_1.bin", "test_batch.bin", "data_batch_1", "test_batch"}},
      {.name = "cifar100",
       .summary = "60,000 colour images, 32 x 32, 100 classes",
       .licence = "none stated; cite Krizhevsky 2009",
       .folder = "cifar-100-binary",
       .megabytes = 168.5,
       .packing = Packing::tar,
       .archives = {{"cifar-100-binary.tar.gz",
                     "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                     "md5:03b5dce01913d631647c71ecec9e9cb8"}},
       .members = {"cifar-100-binary/train.bin", "cifar-100-binary/test.bin",
                   "cifar-100-binary/"},
       .marks = {"train.bin", "test.bin", "train", "test"}},
      {.name = "imagenet",
       .summary = "1.3 million photographs in 1,000 folders of JPEG",
       .licence = "research only, by ImageNet's terms of access",
       .folder = "imagenet",
       .megabytes = 147'000,
       .marks = {"train", "val"},
       .by_hand =
           "register at https://image-net.org, take ILSVRC2012, and unpack it into "
           "DIR/train/CLASS/*.JPEG and DIR/val/CLASS/*.JPEG"},
  };
}

std::vector<Set> other_sets() {
  return {
      {.name = "wikitext2",
       .summary = "2.5 million words of good Wikipedia articles",
       .licence = "CC BY-SA 3.0",
       .folder = "wikitext-2",
       .megabytes = 4.5,
       .packing = Packing::zip,
       .archives = {{"wikitext-2-v1.zip",
                     "https://s3.amazonaws.com/research.metamind.io/wikitext/"
                     "wikitext-2-v1.zip",
                     "sha256:"
                     "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c"}},
       .members = {"wikitext-2/wiki.train.tokens", "wikitext-2/wiki.valid.tokens",
                   "wikitext-2/wiki.test.tokens", "wikitext-2/"},
       .marks = {"wiki.train.tokens", "train.txt", "wiki.test.tokens", "test.txt"}},
      {.name = "wikipedia-en",
       .summary = "English Wikipedia as WikiExtractor's shards",
       .licence = "CC BY-SA 4.0",
       .folder = "wikipedia-en",
       .megabytes = 21'000,
       .marks = {"train", "valid"},
       .by_hand =
           "take a dump from https://dumps.wikimedia.org/enwiki, run WikiExtractor "
           "on it, and put its folders into DIR/train and a few shards into "
           "DIR/valid"},
      {.name = "bert-vocab",
       .summary = "BERT's vocabulary of 30,522 lower-case word pieces",
       .licence = "Apache-2.0",
       .folder = "bert-vocab",
       .megabytes = 0.2,
       .archives = {{"vocab.txt",
                     "https://huggingface.co/bert-base-uncased/resolve/main/vocab.txt",
                     "sha256:"
                     "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"}},
       .marks = {"vocab.txt"}},
      {.name = "an4",
       .summary = "1,078 spoken addresses, names and numbers, 16 kHz",
       .licence = "CMU's, for any use (see LICENSE in it)",
       .folder = "an4",
       .megabytes = 64.3,
       .packing = Packing::tar,
       .archives = {{"an4_sphere.tar.gz",
                     "http://www.speech.cs.cmu.edu/databases/an4/an4_sphere.tar.gz",
                     "sha256:"
                     "a0525579493735d32b60fb6fa5975dd0eaacde087b0a4eeb7f13b7ef33077b12"}},
       .members = {"an4/etc/an4_train.fileids", "an4/etc/an4_train.transcription",
                   "an4/etc/an4_test.fileids", "an4/etc/an4_test.transcription", "an4/"},
       .marks = {"etc"}},
      {.name = "ml-1m",
       .summary = "MovieLens: 1,000,209 ratings of 3,706 films by 6,040 people",
       .licence = "research only, not to be redistributed (README in it)",
       .folder = "ml-1m",
       .megabytes = 5.9,
       .packing = Packing::zip,
       .archives = {{"ml-1m.zip",
                     "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
                     "md5:c4d9eecfca2ab87c1945afe126590906"}},
       .members = {"ml-1m/ratings.dat", "ml-1m/"},
       .marks = {"ratings.dat", "ml-1m.train.rating"}},
      {.name = "ml-20m",
       .summary = "MovieLens: 20,000,263 ratings of 26,744 films by 138,493 people",
       .licence = "research only, not to be redistributed (README in it)",
       .folder = "ml-20m",
       .megabytes = 198.7,
       .packing = Packing::zip,
       .archives = {{"ml-20m.zip",
                     "https://files.grouplens.org/datasets/movielens/ml-20m.zip",
                     "md5:cd245b17a1ae2cc31bb14903e1204af3"}},
       .members = {"ml-20m/ratings.csv", "ml-20m/"},
       .marks = {"ratings.csv", "ml-20m.train.rating"}},
  };
}

bool has_mark(const Set& set, const fs::path& folder) {
  std::error_code error;
  return std::any_of(set.marks.begin(), set.marks.end(), [&](std::string_view mark) {
    return fs::exists(folder / mark, error);
  });
}

}  // namespace

std::span<const Set> sets() {
  static const std::vector<Set> all = [] {
    std::vector<Set> joined = image_sets();
    for (Set& set : other_sets()) joined.push_back(std::move(set));
    return joined;
  }();
  return all;
}

const Set& find_set(std::string_view name) {
  std::vector<std::string> names;
  for (const Set& set : sets()) {
    if (set.name == name) return set;
    names.emplace_back(set.name);
  }
  throw ConfigError("There is no data set " + in_quotes(name) + "; nearest is " +
                    nearest(name, names) + ".");
}

std::string cure(const Set& set) {
  std::string said;
  if (!set.archives.empty())
    said = "`topknot data " + std::string(set.name) + " DIR` fetches it";
  if (!set.by_hand.empty()) {
    if (!said.empty()) said += ", or ";
    said += set.by_hand;
  }
  return said + ".";
}

fs::path find_folder(const Set& set, const fs::path& folder) {
  if (folder.empty() && set.system_folder.empty())
    throw DataError("No folder was named for " + std::string(set.name) + "; " +
                    cure(set));
  const fs::path given = folder.empty() ? fs::path(set.system_folder) : folder;
  for (const fs::path& at : {given / set.folder, given})
    if (has_mark(set, at)) return at;
  throw DataError(about(given) + "there is no " + std::string(set.name) + " in it; " +
                  cure(set));
}

}  // namespace topknot::data
