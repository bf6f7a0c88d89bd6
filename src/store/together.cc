// SPDX-License-Identifier: Apache-2.0
#include "store/together.h"

#include "topknot/error.h"

namespace topknot::store {
namespace {

constexpr std::size_t kHeadBytes = 1 + 3 * 8;
constexpr std::size_t kMostText = 8192;

std::vector<std::byte> bytes_of(const Note& note) {
  std::vector<std::byte> bytes{static_cast<std::byte>(note.outcome)};
  for (const std::uint64_t word : note.words)
    for (int shift = 0; shift < 64; shift += 8)
      bytes.push_back(static_cast<std::byte>(word >> shift));
  for (const char c : note.text.substr(0, kMostText))
    bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

Note note_of(const std::vector<std::byte>& bytes, int from) {
  if (bytes.size() < kHeadBytes || bytes[0] > static_cast<std::byte>(Outcome::contract))
    throw LinkError(from, "Rank " + std::to_string(from) +
                              " sent something else than word of its checkpoint.");
  Note note;
  note.outcome = static_cast<Outcome>(bytes[0]);
  std::size_t at = 1;
  for (std::uint64_t& word : note.words)
    for (int shift = 0; shift < 64; shift += 8)
      word |= std::to_integer<std::uint64_t>(bytes[at++]) << shift;
  for (; at < bytes.size(); ++at)
    note.text.push_back(static_cast<char>(std::to_integer<unsigned char>(bytes[at])));
  return note;
}

Note receive(Transport& link, int from) {
  std::vector<std::byte> bytes;
  link.wait(link.recv(from, bytes, kHeadBytes + kMostText));
  return note_of(bytes, from);
}

Note failed(Outcome outcome, const char* sentence) { return {outcome, {}, sentence}; }

}  // namespace

Note attempt(const std::function<void(Note&)>& task) {
  try {
    Note note;
    task(note);
    return note;
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

void require_ok(const Note& note) {
  switch (note.outcome) {
    case Outcome::ok:
      return;
    case Outcome::storage:
      throw StorageError(note.text);
    case Outcome::config:
      throw ConfigError(note.text);
    case Outcome::no_checkpoint:
      throw NoCheckpointError(note.text);
    case Outcome::contract:
      throw ContractError(note.text);
  }
}

std::vector<Note> gather(Transport& link, const Note& mine) {
  if (link.rank() != 0) {
    const std::vector<std::byte> bytes = bytes_of(mine);
    link.wait(link.send(0, bytes));
    return {};
  }
  std::vector<Note> notes{mine};
  for (int rank = 1; rank < link.size(); ++rank) notes.push_back(receive(link, rank));
  return notes;
}

Note first_failure(const std::vector<Note>& notes) {
  for (std::size_t rank = 0; rank < notes.size(); ++rank) {
    if (notes[rank].outcome == Outcome::ok) continue;
    Note note = notes[rank];
    note.text = "Rank " + std::to_string(rank) + ": " + note.text;
    return note;
  }
  return {};
}

void broadcast(Transport& link, Note& note) {
  if (link.rank() != 0) {
    note = receive(link, 0);
    return;
  }
  const std::vector<std::byte> bytes = bytes_of(note);
  std::vector<Pending> sent;
  for (int rank = 1; rank < link.size(); ++rank) sent.push_back(link.send(rank, bytes));
  for (const Pending message : sent) link.wait(message);
}

}  // namespace topknot::store
