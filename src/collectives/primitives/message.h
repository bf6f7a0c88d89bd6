// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace topknot::collective {

/// A coded message. One that is coded for everyone may be passed on as it is. Its bytes live
/// until every send of it has ended, even where the message is destroyed before: an exception
/// may destroy a collective whose messages the network still reads.
class Message {
 public:
  Message() = default;

  std::span<const std::byte> bytes() const noexcept {
    return bytes_ ? std::span<const std::byte>(*bytes_) : std::span<const std::byte>();
  }
  std::size_t size() const noexcept { return bytes().size(); }

  /// The bytes, for new contents: fresh ones where a send still shares the old ones.
  std::vector<std::byte>& write() {
    if (!bytes_ || bytes_.use_count() > 1)
      bytes_ = std::make_shared<std::vector<std::byte>>();
    return *bytes_;
  }
  /// A share in the bytes as they are.
  std::shared_ptr<const std::vector<std::byte>> share() const {
    if (!bytes_) return std::make_shared<const std::vector<std::byte>>();
    return bytes_;
  }

 private:
  std::shared_ptr<std::vector<std::byte>> bytes_;
};

}  // namespace topknot::collective
