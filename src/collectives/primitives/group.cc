// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/group.h"

#include <algorithm>
#include <string>
#include <utility>

#include "topknot/error.h"

namespace topknot::collective {
namespace {

class Group final : public Transport {
 public:
  Group(Transport& link, std::vector<int> members)
      : link_(link), members_(std::move(members)), rank_(number_of(link_.rank())) {
    if (rank_ >= size())
      throw ContractError("rank " + std::to_string(link_.rank()) +
                          " is to talk in a group that it is not in");
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(members_.size()); }

  Pending send(int to, std::span<const std::byte> bytes) override {
    return link_.send(member(to), bytes);
  }

  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    return link_.send_shared(member(to), std::move(bytes));
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return link_.recv(member(from), into, limit);
  }

  void fail(const LinkError& cause) noexcept override {
    if (dynamic_cast<const DisagreementError*>(&cause) != nullptr)
      return link_.fail(
          seen_from_outside(static_cast<const DisagreementError&>(cause), members_));
    link_.fail(seen_from_outside(cause, members_));
  }
  void abandon() noexcept override { link_.abandon(); }
  void wait(Pending message) override {
    try {
      link_.wait(message);
    } catch (const DisagreementError& error) {
      throw DisagreementError(number_of(error.peer()), error.what());
    } catch (const OverlongError& error) {
      throw OverlongError(number_of(error.peer()), error.what());
    } catch (const LinkError& error) {
      throw LinkError(number_of(error.peer()), error.what());
    }
  }

  bool allreduce(std::span<float>) override { return false; }

  double now() const noexcept override { return link_.now(); }

  int node_of(int rank) const noexcept override { return link_.node_of(member(rank)); }

  std::unique_ptr<Transport> channel(int id) override {
    std::unique_ptr<Transport> link = link_.channel(id);
    auto group = std::make_unique<Group>(*link, members_);
    group->owned_ = std::move(link);
    return group;
  }

 private:
  int member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  int number_of(int rank) const {
    const auto found = std::ranges::find(members_, rank);
    if (found == members_.end()) return size() + rank;
    return static_cast<int>(found - members_.begin());
  }

  Transport& link_;
  std::unique_ptr<Transport> owned_;  // link_, where this is a sub-channel
  const std::vector<int> members_;
  const int rank_;
};

}  // namespace

std::unique_ptr<Transport> make_group(Transport& link, std::vector<int> members) {
  return std::make_unique<Group>(link, std::move(members));
}

}  // namespace topknot::collective
