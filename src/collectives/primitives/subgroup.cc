// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/subgroup.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

namespace topknot::collective {
namespace {

class SubgroupTransport final : public Transport {
 public:
  SubgroupTransport(Transport& link, Subgroup group)
      : link_(link), group_(std::move(group)) {}

  int rank() const noexcept override { return group_.place(); }
  int size() const noexcept override { return group_.size(); }

  Pending send(int to, std::span<const std::byte> bytes) override {
    return in_members([&] { return link_.send(group_.rank(to), bytes); });
  }

  Pending send_shared(int to,
                      std::shared_ptr<const std::vector<std::byte>> bytes) override {
    return in_members(
        [&] { return link_.send_shared(group_.rank(to), std::move(bytes)); });
  }

  Pending recv(int from, std::vector<std::byte>& into, std::size_t limit) override {
    return in_members([&] { return link_.recv(group_.rank(from), into, limit); });
  }

  void fail(const LinkError& cause) noexcept override {
    if (dynamic_cast<const DisagreementError*>(&cause) != nullptr)
      return link_.fail(
          seen_from_job(static_cast<const DisagreementError&>(cause), group_));
    link_.fail(seen_from_job(cause, group_));
  }
  void abandon() noexcept override { link_.abandon(); }
  void wait(Pending message) override {
    in_members([&] { link_.wait(message); });
  }

  bool allreduce(std::span<float>) override { return false; }

  double now() const noexcept override { return link_.now(); }

  int node_of(int rank) const noexcept override {
    return link_.node_of(group_.rank(rank));
  }

  std::unique_ptr<Transport> channel(int id) override {
    std::unique_ptr<Transport> link = link_.channel(id);
    auto below = std::make_unique<SubgroupTransport>(*link, group_);
    below->owned_ = std::move(link);
    return below;
  }

 private:
  // Errors of the job come out with the peer's member. A channel that has failed throws on a
  // send and a receive, too.
  template <typename Call>
  std::invoke_result_t<Call> in_members(Call call) {
    try {
      return call();
    } catch (const DisagreementError& error) {
      throw DisagreementError(group_.member_of(error.peer()), error.what());
    } catch (const OverlongError& error) {
      throw OverlongError(group_.member_of(error.peer()), error.what());
    } catch (const LinkError& error) {
      throw LinkError(group_.member_of(error.peer()), error.what());
    }
  }

  Transport& link_;
  std::unique_ptr<Transport> owned_;  // link_, where this is a sub-channel
  const Subgroup group_;
};

}  // namespace

Subgroup::Subgroup(std::vector<int> ranks, int me)
    : ranks_(std::move(ranks)), place_(member_of(me)) {
  if (place_ >= size())
    throw ContractError("Rank " + std::to_string(me) +
                        " is not in the subgroup that it is to be a member of.");
}

Subgroup Subgroup::strided(int first, int stride, int size, int me) {
  std::vector<int> ranks;
  for (int member = 0; member < size; ++member) ranks.push_back(first + stride * member);
  return {std::move(ranks), me};
}

int Subgroup::member(int distance) const noexcept {
  return ((place_ + distance) % size() + size()) % size();
}

int Subgroup::member_of(int rank) const noexcept {
  const auto found = std::ranges::find(ranks_, rank);
  if (found == ranks_.end()) return size() + rank;
  return static_cast<int>(found - ranks_.begin());
}

std::string divisors_of(int ranks) {
  std::string divisors;
  for (int d = 1; d <= ranks; ++d)
    if (ranks % d == 0) divisors += (d == 1 ? "" : ", ") + std::to_string(d);
  return divisors;
}

std::unique_ptr<Transport> make_subgroup_transport(Transport& link, Subgroup group) {
  return std::make_unique<SubgroupTransport>(link, std::move(group));
}

}  // namespace topknot::collective
