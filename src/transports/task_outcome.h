// SPDX-License-Identifier: Apache-2.0
//
// How a task went, as bytes that a rank can send: a byte for the type of the error, if any, then
// what the task returned or the sentence of its error.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace topknot::transports {

using Bytes = std::vector<std::byte>;

/// Runs `task`. An error becomes its outcome; one that has no type of its own there is a
/// StorageError's. A LinkError is thrown.
Bytes attempt(const std::function<Bytes()>& task);

/// Whether `bytes` are an outcome. All that follow need one.
bool is_outcome(const Bytes& bytes);
bool is_ok(const Bytes& outcome);
/// What the task returned. Throws its error where it failed.
Bytes value_or_throw(const Bytes& outcome);
/// That of the lowest rank whose task failed, with "Rank N: " before the sentence. Nothing where
/// all went well.
std::optional<Bytes> first_failure(const std::vector<Bytes>& outcomes);

}  // namespace topknot::transports
