// SPDX-License-Identifier: Apache-2.0
//
// Compares fields between ranks: what the ranks were started with, and later their weights and
// optimizers. All ranks gather one hash each. Where the hashes differ, one rank of each group of
// equal ranks broadcasts its fields, so that every rank can name the fields, values and ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "job/job.h"
#include "topknot/error.h"
#include "topknot/transport.h"
#include "transports/control_channel.h"

namespace topknot::train {

/// Something that must be the same on all ranks, and its value on this one.
struct Field {
  std::string name;
  std::string value;
  bool operator==(const Field&) const = default;
};
using Fields = std::vector<Field>;

/// Every key of the job but those that may differ between ranks.
Fields fields_of(const Job& job);

/// A field that is not the same on all ranks.
struct Difference {
  struct Side {
    std::string value;
    std::vector<int> ranks;  ///< that have it, in order
  };
  std::string field;
  std::vector<Side>
      sides;  ///< by number of ranks, fewest first; among equals rank 0's last

  /// "rank 1 has lr = 0.5, rank 0 has 0.01"
  std::string str() const;
};

/// The ranks were started with different fields. All ranks throw the same sentences, so that one
/// may print them.
class StartedUnlikeError : public DisagreementError {
 public:
  explicit StartedUnlikeError(const std::vector<Difference>& differences);
  /// One for each field; beyond the fiftieth only how many there are.
  const std::vector<std::string>& sentences() const noexcept { return sentences_; }

 private:
  std::vector<std::string> sentences_;
};

/// The ranks started alike, but their weights or optimizers have become different. All ranks
/// throw the same sentences, so that one may print them.
class DriftError : public Error {
 public:
  DriftError(std::uint64_t step, std::uint64_t last_equal,
             const std::vector<Difference>& differences);
  /// What to do, and one for each tensor.
  const std::vector<std::string>& sentences() const noexcept { return sentences_; }

 private:
  std::vector<std::string> sentences_;
};

class Comparison {
 public:
  /// Uses the channel of `link` with this number, and nobody else does.
  Comparison(Transport& link, int channel);

  /// All ranks call it, and get the same: the fields that differ, in the order of rank 0's
  /// fields. Throws LinkError.
  std::vector<Difference> differences(const Fields& mine);
  /// Throws StartedUnlikeError, on all ranks, where there are differences.
  void require_equal(const Fields& mine);

 private:
  ControlChannel control_;
};

/// A sentence for each difference, at most fifty, then one with the number of the rest.
std::vector<std::string> sentences_of(const std::vector<Difference>& differences);

/// "rank 1", "ranks 0 and 2", "ranks 0, 2 and 5 to 9"
std::string name_ranks(const std::vector<int>& ranks);

// ---- fields as messages

/// Lengths and texts, padded to whole words.
std::vector<std::uint32_t> pack(const Fields& fields);
/// Reverses pack(). False where `words` are not a packed list of fields.
bool unpack(std::span<const std::uint32_t> words, Fields& fields);

}  // namespace topknot::train
