// SPDX-License-Identifier: Apache-2.0
#include "transports/task_outcome.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "topknot/error.h"

namespace topknot::transports {
namespace {

constexpr std::size_t kMostSentence = 8192;

enum class Outcome : std::uint8_t { ok, storage, config, no_checkpoint, contract };

Bytes packed(Outcome outcome, std::span<const std::byte> content) {
  Bytes bytes(1 + content.size());
  bytes[0] = static_cast<std::byte>(outcome);
  std::ranges::copy(content, bytes.begin() + 1);
  return bytes;
}

Bytes failed(Outcome outcome, std::string_view sentence) {
  return packed(outcome, std::as_bytes(std::span(sentence.substr(0, kMostSentence))));
}

std::string sentence_in(const Bytes& outcome) {
  return {reinterpret_cast<const char*>(outcome.data()) + 1, outcome.size() - 1};
}

}  // namespace

Bytes attempt(const std::function<Bytes()>& task) {
  try {
    return packed(Outcome::ok, task());
  } catch (const LinkError&) {
    throw;
  } catch (const ConfigError& error) {
    return failed(Outcome::config, error.what());
  } catch (const NoCheckpointError& error) {
    return failed(Outcome::no_checkpoint, error.what());
  } catch (const ContractError& error) {
    return failed(Outcome::contract, error.what());
  } catch (const std::exception& error) {
    return failed(Outcome::storage, error.what());
  }
}

bool is_outcome(const Bytes& bytes) {
  return !bytes.empty() && bytes[0] <= static_cast<std::byte>(Outcome::contract);
}

bool is_ok(const Bytes& outcome) {
  return outcome[0] == static_cast<std::byte>(Outcome::ok);
}

std::optional<Bytes> first_failure(const std::vector<Bytes>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
    if (!is_ok(outcomes[rank]))
      return failed(static_cast<Outcome>(outcomes[rank][0]),
                    "Rank " + std::to_string(rank) + ": " + sentence_in(outcomes[rank]));
  return std::nullopt;
}

Bytes value_or_throw(const Bytes& outcome) {
  const std::string sentence = sentence_in(outcome);
  switch (static_cast<Outcome>(outcome[0])) {
    case Outcome::ok:
      break;
    case Outcome::storage:
      throw StorageError(sentence);
    case Outcome::config:
      throw ConfigError(sentence);
    case Outcome::no_checkpoint:
      throw NoCheckpointError(sentence);
    case Outcome::contract:
      throw ContractError(sentence);
  }
  return {outcome.begin() + 1, outcome.end()};
}

}  // namespace topknot::transports
