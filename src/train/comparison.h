// SPDX-License-Identifier: Apache-2.0
//
// Whether all ranks have the same: what they were started with, and later what they have come
// to. Where they have, that takes one small message round; where not, one rank of each kind
// says all that it has, and everybody can name the fields, the values and the ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/primitives/broadcast.h"
#include "collectives/primitives/message_channel.h"
#include "collectives/primitives/words.h"
#include "topknot/error.h"
#include "topknot/params.h"
#include "topknot/transport.h"
#include "train/job.h"

namespace topknot::train {

/// Something that must be the same on all ranks, and what it is on this one.
struct Field {
  std::string name;
  std::string value;
  bool operator==(const Field&) const = default;
};
using Fields = std::vector<Field>;

/// Every key of the job but those that may differ.
Fields fields_of(const Job& job);

/// A field that is not the same on all ranks.
struct Difference {
  struct Side {
    std::string value;
    std::vector<int> ranks;  ///< that have it, in order
  };
  std::string field;
  std::vector<Side>
      sides;  ///< what the fewest have comes first; of equals, rank 0's last

  /// "rank 1 has lr = 0.5, rank 0 has 0.01"
  std::string str() const;
};

/// All ranks throw the same, so that one may speak for all.
class StartedUnlikeError : public DisagreementError {
 public:
  explicit StartedUnlikeError(const std::vector<Difference>& differences);
  /// One for each field; beyond the fiftieth only how many there are.
  const std::vector<std::string>& sentences() const noexcept { return sentences_; }

 private:
  std::vector<std::string> sentences_;
};

/// The ranks started alike and no longer have the same weights or optimizer. All ranks throw
/// the same, so that one may speak for all.
class DriftError : public Error {
 public:
  DriftError(std::uint64_t step, std::uint64_t last_equal,
             const std::vector<Difference>& differences);
  /// One for each tensor, and what to do.
  const std::vector<std::string>& sentences() const noexcept { return sentences_; }

 private:
  std::vector<std::string> sentences_;
};

class Comparison {
 public:
  /// Takes the channel of `link` with this number for itself.
  Comparison(Transport& link, int channel);

  /// All ranks call it. Returns the same on all of them, in the order of rank 0's fields.
  /// Throws LinkError.
  std::vector<Difference> differences(const Fields& mine);
  /// Throws StartedUnlikeError, on all ranks, where there are any.
  void require_equal(const Fields& mine);

 private:
  std::unique_ptr<Transport> channel_;
  Params params_;
  collective::MessageChannel channel_;
};

/// The sentences, cut after the fiftieth. For errors that are made of them.
std::vector<std::string> sentences_of(const std::vector<Difference>& differences);

/// "rank 1", "ranks 0 and 2", "ranks 0, 2 and 5 to 9"
std::string name_ranks(const std::vector<int>& ranks);

// ---- how fields travel

/// Lengths and texts, padded to whole words.
std::vector<std::uint32_t> pack(const Fields& fields);
/// What pack() made; false where it did not make `words`.
bool unpack(std::span<const std::uint32_t> words, Fields& fields);

}  // namespace topknot::train
