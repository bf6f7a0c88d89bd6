// SPDX-License-Identifier: Apache-2.0
//
// Bad input gets one clear sentence: tests hold it to the words, not to an error of some
// kind.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

#include "topknot/error.h"

namespace topknot::testing {

/// The sentence of the `Error` that `act` throws, or what happened instead.
template <typename Error, typename Act>
std::string refusal(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    std::string other = "an error of another kind: ";
    return other.append(error.what());
  }
  return "it was accepted";
}

}  // namespace topknot::testing

#define EXPECT_REFUSAL(statement, Error, sentence) \
  EXPECT_EQ(::topknot::testing::refusal<Error>([&] { statement; }), sentence)
