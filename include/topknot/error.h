// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace topknot {

/// The base of every error of the library. `what()` is one sentence for a person.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A setting or an argument is not valid. The sentence says what is allowed and, for a name,
/// the nearest one that exists. Nothing has been changed.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// A peer or the network failed. All channels between these ranks have failed: make new ones.
class LinkError : public Error {
 public:
  LinkError(int peer, const std::string& sentence) : Error(sentence), peer_(peer) {}
  /// The rank that did not answer, left, or sent what could not be read.
  int peer() const noexcept { return peer_; }

 private:
  int peer_;
};

/// A peer sent a message that is longer than the receiver's limit. The receiver has its first
/// bytes.
class OverlongError : public LinkError {
 public:
  using LinkError::LinkError;
};

/// Two ranks were not doing the same thing: they differ in the step, the vector, k or the
/// configuration. The sentence names the field, both values and both ranks. All ranks throw it.
class DisagreementError : public LinkError {
 public:
  using LinkError::LinkError;
};

/// A file is missing, cut short, or damaged. The sentence names the file, what it has and what
/// it should have.
class DataError : public Error {
 public:
  using Error::Error;
};

/// The file system refused: the disk is full or broken, or permission is missing. Files that
/// were stored before are untouched.
class StorageError : public Error {
 public:
  using Error::Error;
};

/// No usable checkpoint to resume from. The sentence says what was found.
class NoCheckpointError : public Error {
 public:
  using Error::Error;
};

/// A bug in the caller or in the library: a call broke the contract of an interface. The
/// sentence has the values.
class ContractError : public Error {
 public:
  using Error::Error;
};

}  // namespace topknot
