// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace topknot {

/// What every error of the library derives from. `what()` is one sentence for a person.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Something was asked for that cannot be. The sentence says what is allowed and, for a
/// name, the nearest one that exists. Nothing has been changed.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// A peer or the network failed. All channels between these ranks are dead: make new ones.
class LinkError : public Error {
 public:
  LinkError(int peer, const std::string& sentence) : Error(sentence), peer_(peer) {}
  /// The rank that fell silent, left, or sent what could not be read.
  int peer() const noexcept { return peer_; }

 private:
  int peer_;
};

/// A peer sent a message that is longer than the receiver allows for. The receiver has its
/// first bytes.
class OverlongError : public LinkError {
 public:
  using LinkError::LinkError;
};

/// Two ranks were not doing the same thing: another step, vector, k or configuration. The
/// sentence names the field, both values and both ranks. All ranks throw it.
class DisagreementError : public LinkError {
 public:
  using LinkError::LinkError;
};

/// A file that was to be read is missing, cut short, or not what it should be. The sentence
/// names the file, what it has and what it should have.
class DataError : public Error {
 public:
  using Error::Error;
};

/// The disk refused: no room, no right, or broken. What was stored before is untouched.
class StorageError : public Error {
 public:
  using Error::Error;
};

/// No usable checkpoint to resume from. The sentence says what was found.
class NoCheckpointError : public Error {
 public:
  using Error::Error;
};

/// A bug of the caller's or of ours: a promise of an interface was broken. The sentence
/// has the values.
class ContractError : public Error {
 public:
  using Error::Error;
};

}  // namespace topknot
