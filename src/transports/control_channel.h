// SPDX-License-Identifier: Apache-2.0
//
// What the ranks tell each other outside the exchange of gradients: losses, the outcome of a
// checkpoint, whether a rank was asked to stop, traces, sums of an evaluation.
//
//     ControlChannel control(link, kControlChannel);
//     const auto losses = control.gather(std::vector<double>{loss});  // losses[rank][0]
//     control.all_or_none([&] { write_shard(); });                    // all continue, or all throw
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "topknot/transport.h"

namespace topknot {

namespace transports {
enum class ControlOperation : std::uint32_t;
}

/// All ranks call the same functions in the same order. Results are in rank order, with the
/// same bits on every rank that gets them.
///
/// Every message names its operation, its number and its lengths. Throws DisagreementError where a
/// rank is at another operation, or a message comes twice, and LinkError, with the rank, for a message that cannot be read or
/// cannot arrive. All channels between the ranks have then failed.
class ControlChannel {
 public:
  using Bytes = std::vector<std::byte>;

  /// One rank's message may have this many bytes unless a call allows for more.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  /// Uses `link`, which must outlive this and carries nothing else meanwhile.
  explicit ControlChannel(Transport& link);
  /// The same after another that has used `link`: goes on from `count`, which must outlive this.
  ControlChannel(Transport& link, std::uint64_t& count);
  /// Uses a channel of its own of `link`. All ranks make it together.
  ControlChannel(Transport& link, int id);

  int rank() const noexcept { return link_.rank(); }
  int size() const noexcept { return link_.size(); }

  // ---- bytes; `most` is the longest message of one rank, the same number on all ranks

  /// Every rank's bytes, on every rank: ceil(log2 P) messages from each.
  std::vector<Bytes> gather_bytes(std::span<const std::byte> mine,
                                  std::size_t most = kMostBytes);
  /// Every rank's bytes, on rank 0; nothing elsewhere.
  std::vector<Bytes> gather_bytes_at_0(std::span<const std::byte> mine,
                                       std::size_t most = kMostBytes);
  /// The bytes of rank `root`, on every rank. Those of others are not looked at.
  Bytes broadcast(int root, std::span<const std::byte> mine,
                  std::size_t most = kMostBytes);
  /// Returns once every rank has called it.
  void barrier();

  // ---- values

  /// Every rank's values, on every rank. Throws DisagreementError, on all ranks, where a rank
  /// has more or fewer than rank 0.
  template <typename T>
  std::vector<std::vector<T>> gather(const std::vector<T>& mine) {
    const auto all = gather_bytes(as_bytes(mine), at_least(mine.size() * sizeof(T)));
    require_equal_lengths(all);
    return values_of_all<T>(all);
  }
  /// Every rank's values, on rank 0; nothing elsewhere. A rank has `most_values` at most.
  template <typename T>
  std::vector<std::vector<T>> gather_at_0(const std::vector<T>& mine,
                                          std::size_t most_values) {
    return values_of_all<T>(
        gather_bytes_at_0(as_bytes(mine), at_least(most_values * sizeof(T))));
  }
  /// Added up in rank order. All ranks have the same number of values.
  std::vector<double> sum(const std::vector<double>& mine);
  /// Replaces `x` with its mean over the ranks, added up in rank order. Every rank receives
  /// all vectors: for short ones.
  void average(std::span<float> x);

  // ---- tasks that may fail

  /// Every rank runs `task`. Where none throws, rank 0 calls `conclude` with what the tasks
  /// returned, by rank, and all ranks return what that returns.
  ///
  /// Otherwise all ranks throw the same error: that of the lowest rank whose task threw, with
  /// "Rank N: " before its sentence, or that of `conclude`. Rank 0 calls `undo` before the
  /// others hear of it. ConfigError, NoCheckpointError and ContractError keep their type; any
  /// other becomes a StorageError. A LinkError is thrown at once, without `undo`.
  Bytes all_or_none(
      const std::function<Bytes()>& task,
      const std::function<Bytes(const std::vector<Bytes>&)>& conclude,
      const std::function<void()>& undo = [] {});
  void all_or_none(const std::function<void()>& task);

  /// Rank 0 runs `task`. All ranks return what it returns, or throw the same error, as above
  /// but with its sentence as it is.
  Bytes from_rank_0(const std::function<Bytes()>& task);
  void on_rank_0(const std::function<void()>& task);

  // ---- values and texts as bytes

  template <typename T>
  static Bytes bytes_of(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    Bytes bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static Bytes bytes_of_text(std::string_view text);
  static std::string text_in(std::span<const std::byte> bytes);
  /// What rank `from` sent. Throws LinkError where that has another length.
  template <typename T>
  T value_in(std::span<const std::byte> bytes, int from) {
    static_assert(std::is_trivially_copyable_v<T>);
    require_length(bytes.size(), sizeof(T), from);
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

 private:
  template <typename T>
  static std::span<const std::byte> as_bytes(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return std::as_bytes(std::span(values));
  }
  static std::size_t at_least(std::size_t bytes) {
    return bytes < kMostBytes ? kMostBytes : bytes;
  }

  template <typename T>
  std::vector<std::vector<T>> values_of_all(const std::vector<Bytes>& all) {
    std::vector<std::vector<T>> values;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const std::size_t count = all[rank].size() / sizeof(T);
      require_length(all[rank].size(), count * sizeof(T), static_cast<int>(rank));
      std::vector<T>& one = values.emplace_back(count);
      if (count > 0) std::memcpy(one.data(), all[rank].data(), all[rank].size());
    }
    return values;
  }

  std::vector<Bytes> to_rank_0(transports::ControlOperation operation, Bytes mine,
                               std::size_t most);
  Bytes from_root(transports::ControlOperation operation, int root, Bytes mine,
                  std::size_t most);
  Bytes decided_by_rank_0(const std::function<Bytes()>& decide);
  void require_equal_lengths(const std::vector<Bytes>& all);
  void require_length(std::size_t bytes, std::size_t expected, int from);
  void require_outcome(const Bytes& outcome, int from);

  /// Runs `work`, which exchanges messages. A LinkError ends the job on all ranks. Memory that
  /// `work` receives into must outlive the call.
  template <typename Work>
  auto guarded(Work work);

  std::unique_ptr<Transport> own_;
  Transport& link_;
  std::uint64_t own_count_ = 0;
  std::uint64_t& count_;  // of the operations so far
};

}  // namespace topknot
