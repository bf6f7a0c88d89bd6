// SPDX-License-Identifier: Apache-2.0
//
// A file of gradients is read as it was written, and one that is none is refused in a
// sentence that says why.
#include "store/gradients.h"

#include <gtest/gtest.h>

#include <limits>

#include "refusal.h"
#include "store/memory_files.h"
#include "topknot/error.h"

namespace topknot::store {
namespace {

using testing::MemoryFiles;
using Floats = std::vector<float>;

const std::string kPath = "folder/g.safetensors";

/// Two steps of two ranks, of a matrix "z" and a vector "a" behind it.
Container whole() {
  Container file;
  file.metadata["model"] = "mlp";
  file.metadata[kParameterOrder] = "z\na\n";
  float value = 0;
  for (const std::uint64_t step : {2, 10})
    for (const std::uint64_t rank : {0, 3}) {
      file.keep(gradient_name(step, rank, "z"),
                Floats{value, value + 1, value + 2, value + 3}, {2, 2});
      file.keep(gradient_name(step, rank, "a"), Floats{value + 4});
      value += 5;
    }
  return file;
}

class Gradients : public ::testing::Test {
 protected:
  Gradients() { files_.make_folder("folder"); }

  RecordedGradients read(const Container& file) {
    write_gradients(files_, kPath, file);
    return {files_, kPath};
  }

  /// The sentence of the DataError.
  std::string refusal(const Container& file) {
    try {
      read(file);
    } catch (const DataError& error) {
      return error.what();
    }
    ADD_FAILURE() << "it was taken";
    return "";
  }

  MemoryFiles files_;
};

void expect_says(const std::string& sentence, const std::string& word) {
  EXPECT_NE(sentence.find(word), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(kPath), std::string::npos) << sentence;
}

TEST_F(Gradients, ComeBackInForwardOrder) {
  const RecordedGradients back = read(whole());
  EXPECT_EQ(back.layout(), (Layout{{{"z", 0, {2, 2}}, {"a", 4, {1}}}}));
  EXPECT_EQ(back.steps(), (std::vector<std::uint64_t>{2, 10}));
  EXPECT_EQ(back.ranks(), (std::vector<std::uint64_t>{0, 3}));
  EXPECT_EQ(back.flat(0, 0), (Floats{0, 1, 2, 3, 4}));
  EXPECT_EQ(back.flat(0, 1), (Floats{5, 6, 7, 8, 9}));
  EXPECT_EQ(back.flat(1, 0), (Floats{10, 11, 12, 13, 14}));
  EXPECT_EQ(back.about("model"), "mlp");
  EXPECT_EQ(back.about("colour"), "");
}

TEST_F(Gradients, AreReadInTheOrderOfTheBytesWhenNoneIsGiven) {
  Container file = whole();
  file.metadata.clear();
  EXPECT_EQ(read(file).layout(), (Layout{{{"a", 0, {1}}, {"z", 1, {2, 2}}}}));
  EXPECT_EQ(read(file).flat(0, 0), (Floats{4, 0, 1, 2, 3}));
}

TEST_F(Gradients, OfParametersWithoutCoordinatesAreLeftOut) {
  Container file = whole();
  file.metadata[kParameterOrder] = "z\nnone\na\n";
  for (const std::uint64_t step : {2, 10})
    for (const std::uint64_t rank : {0, 3})
      file.keep(gradient_name(step, rank, "none"), Floats{}, {0, 5});
  EXPECT_EQ(read(file).layout(), read(whole()).layout());
}

TEST_F(Gradients, MustHaveTheirNames) {
  for (const char* name :
       {"weight", "step-1/z", "step-1/rank-x/z", "step-1/rank-0/", "step-01/rank-0/z",
        "step-1/rank-99999999999999999999999/z", "step--1/rank-0/z"}) {
    Container file = whole();
    file.keep(name, Floats{1});
    expect_says(refusal(file), "step-10/rank-0/PARAMETER");
  }
  expect_says(refusal({}), "no arrays");
}

TEST_F(Gradients, MustBeFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity()}) {
    Container file;
    file.keep(gradient_name(1, 0, "z"), Floats{1, 2});
    file.keep(gradient_name(2, 0, "z"), Floats{1, bad});
    expect_says(refusal(file), "'step-2/rank-0/z' has a value that is not finite");
  }
}

TEST_F(Gradients, MustBeFloatsOfOneShapeAtAllStepsAndRanks) {
  Container other_type = whole();
  other_type.keep("step-2/rank-0/b", std::vector<double>{1});
  expect_says(refusal(other_type), "F64 and not F32");
  Container reshaped;
  reshaped.keep(gradient_name(1, 0, "z"), Floats{1, 2, 3, 4}, {2, 2});
  reshaped.keep(gradient_name(2, 0, "z"), Floats{1, 2, 3, 4}, {4, 1});
  expect_says(refusal(reshaped), "another shape");
  Container nothing;
  nothing.keep(gradient_name(1, 0, "z"), Floats{});
  expect_says(refusal(nothing), "no coordinates");
}

TEST_F(Gradients, MustHaveTheSameParametersAtAllStepsAndRanks) {
  Container missing = whole();
  missing.keep(gradient_name(11, 0, "z"), Floats{1, 2, 3, 4}, {2, 2});
  expect_says(refusal(missing), "no 'step-11/rank-0/a'");
  Container more = whole();
  more.keep(gradient_name(10, 3, "extra"), Floats{1});
  expect_says(refusal(more), "not all the same parameters");
  for (const char* order : {"z\n", "z\na\nb\n", "z\nz\n", "z\nb\n"}) {
    Container listed = whole();
    listed.metadata[kParameterOrder] = order;
    expect_says(refusal(listed), "list of parameters");
  }
}

TEST_F(Gradients, MustBeThereAndWhole) {
  EXPECT_REFUSAL(RecordedGradients(files_, "folder/none"), DataError,
                 "folder/none cannot be read.");
  std::string header;
  std::vector<std::byte> bytes;
  const Container file = whole();
  for (const auto piece : file.pieces(header))
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string path = "folder/cut-" + std::to_string(length);
    const std::span<const std::byte> part(bytes.data(), length);
    write_new(files_, path, {&part, 1});
    const std::string said =
        topknot::testing::refusal<DataError>([&] { RecordedGradients(files_, path); });
    EXPECT_TRUE(said.starts_with(path + " has ") || said.starts_with(path + " says "))
        << said;
  }
}

TEST_F(Gradients, AreNotWrittenOverAFileOrWhereThereIsNoFolder) {
  EXPECT_NO_THROW(require_room_for(files_, kPath));
  EXPECT_TRUE(files_.list("folder").empty());
  write_gradients(files_, kPath, whole());
  EXPECT_REFUSAL(require_room_for(files_, kPath), ConfigError,
                 "There is already something at folder/g.safetensors: name another file "
                 "for the gradients, or remove it.");
  EXPECT_REFUSAL(require_room_for(files_, "folder/"), ConfigError,
                 "'folder/' is no name for a file of gradients.");
  EXPECT_THROW(require_room_for(disk(), "/nowhere/g"), StorageError);
}

TEST_F(Gradients, AreThereWhollyOrNotAtAllWhenTheMachineStops) {
  using Loss = MemoryFiles::Loss;
  for (const Loss loss : {Loss::nothing, Loss::unsynced_bytes, Loss::all_unsynced}) {
    bool finished = false;
    for (std::uint64_t call = 0; !finished && call < 100; ++call) {
      MemoryFiles files;
      files.make_folder("folder");
      files.sync_folder(parent_of("folder"));
      files.arm(MemoryFiles::Fault::kill, call);
      try {
        write_gradients(files, kPath, whole());
        finished = true;
      } catch (const testing::Killed&) {
      }
      files.restart(loss);
      EXPECT_TRUE(files.exists(kPath) || !finished);
      if (files.exists(kPath)) {
        EXPECT_EQ(RecordedGradients(files, kPath).flat(0, 0), (Floats{0, 1, 2, 3, 4}));
      }
      // What this run has left is not in the way of the next.
      write_gradients(files, kPath, whole());
      EXPECT_EQ(files.list("folder").size(), 1U);
    }
    EXPECT_TRUE(finished);
  }
}

}  // namespace
}  // namespace topknot::store
