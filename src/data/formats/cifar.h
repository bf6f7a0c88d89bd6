// SPDX-License-Identifier: Apache-2.0
//
// CIFAR, the binary version: records of one label byte (CIFAR-10) or two (CIFAR-100: twenty
// coarse classes, then the hundred that count) and 3 x 32 x 32 planar bytes. There is no
// header, so a file can be checked by its size only: it must be whole records.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/file.h"
#include "data/images.h"

namespace topknot::data {

/// Collects the records of CIFAR's files.
class CifarRecords {
 public:
  /// Label byte b of a record is below label_bounds[b]; the last byte is the label.
  explicit CifarRecords(std::vector<int> label_bounds);

  /// Appends a file and returns how many records it has. Throws DataError at a size that is not
  /// whole records, and at a label that is not below its bound.
  std::size_t append(const std::filesystem::path& file);

  /// The images of all files. Leaves no record here.
  std::unique_ptr<Images> to_images();

 private:
  std::size_t record_bytes() const;
  void append_record(const std::filesystem::path& file, std::size_t i,
                     const Bytes& bytes);

  std::vector<int> label_bounds_;
  Bytes pixels_;
  Bytes labels_;
};

/// Throws DataError where `folder` has the file `name` of the python version, but not `name`.bin;
/// it recommends `archive`. The python version is pickle, and to read a pickle is to run it.
void refuse_pickles(const std::filesystem::path& folder, const std::string& name,
                    const std::string& archive);

/// The python versions of both sets.
std::vector<OtherVersion> cifar_pickles();

}  // namespace topknot::data
