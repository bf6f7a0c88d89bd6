// SPDX-License-Identifier: Apache-2.0
//
// Ranks that try something together: each says how it went instead of throwing, all hear
// the same, and then all go on or all throw. Nobody is left waiting for one that has
// given up.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "topknot/transport.h"

namespace topknot::store {

enum class Outcome : std::uint8_t { ok, storage, config, no_checkpoint, contract };

/// What one rank has to say: how it went, and either a sentence or what was asked for.
struct Note {
  Outcome outcome = Outcome::ok;
  std::array<std::uint64_t, 3> words{};
  std::string text;
};

/// Runs `task`, which may fill in the note. An error becomes its outcome; one that has no
/// outcome of its own (no memory, say) is a storage error.
Note attempt(const std::function<void(Note&)>& task);

/// Throws the error that the note is about, if any.
void require_ok(const Note& note);

/// At rank 0 everyone's notes, by rank; nothing elsewhere.
std::vector<Note> gather(Transport& link, const Note& mine);

/// The first of `notes` that is not ok, with its rank's number in the sentence; ok when
/// all are.
Note first_failure(const std::vector<Note>& notes);

/// Rank 0's note becomes everyone's.
void broadcast(Transport& link, Note& note);

}  // namespace topknot::store
