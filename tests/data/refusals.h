// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "topknot/error.h"

namespace topknot::data {

/// The sentence of the DataError that `act` throws; empty, and a failure, when it does not.
template <typename Act>
std::string data_error(Act act) {
  try {
    act();
  } catch (const DataError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no DataError was thrown";
  return "";
}

/// Fails unless `act` throws a DataError whose sentence has `part`.
template <typename Act>
void expect_refusal(Act act, const std::string& part) {
  const std::string said = data_error(act);
  EXPECT_NE(said.find(part), std::string::npos) << said << "\ndoes not say: " << part;
}

/// Runs `act`, which may throw a DataError and nothing else.
template <typename Act>
bool refused(Act act) {
  try {
    act();
  } catch (const DataError&) {
    return true;
  }
  return false;
}

}  // namespace topknot::data
