// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <cstdio>

#include "cli/commands.h"
#include "topknot/error.h"

namespace topknot::cli {

// In one piece, so that the lines of several processes stay whole.
int complain(const std::string& sentence, int exit_code) {
  const std::string line = "topknot: " + sentence + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  return exit_code;
}

int report(const std::exception_ptr& error, const std::string& who) {
  const auto say = [&](const std::exception& what, int exit_code) {
    return complain((who.empty() ? "" : who + ": ") + what.what(), exit_code);
  };
  try {
    std::rethrow_exception(error);
  } catch (const ConfigError& what) {
    return say(what, kBadUsage);
  } catch (const DisagreementError& what) {
    return say(what, kRanksDisagree);
  } catch (const LinkError& what) {
    return say(what, kPeerLost);
  } catch (const DataError& what) {
    return say(what, kBadData);
  } catch (const NoCheckpointError& what) {
    return say(what, kNoCheckpoint);
  } catch (const StorageError& what) {
    return say(what, kDiskFailed);
  } catch (const std::exception& what) {
    return say(what, kBug);
  }
}

bool blames_a_peer(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const LinkError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace topknot::cli
