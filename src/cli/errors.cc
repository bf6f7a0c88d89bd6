// SPDX-License-Identifier: Apache-2.0
#include "cli/errors.h"

#include <cstdio>

#include "cli/colour.h"
#include "cli/commands.h"
#include "topknot/error.h"

namespace topknot::cli {

namespace {

// In one piece, so that the lines of several processes stay whole.
void print_line(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void warn(const std::string& sentence) {
  print_line("topknot: " + coloured(Colour::yellow, "warning:", stderr) + " " + sentence +
             "\n");
}

int complain(const std::string& sentence, int exit_code) {
  print_line(coloured(Colour::red, "topknot:", stderr) + " " + sentence + "\n");
  return exit_code;
}

int report_error(const std::exception_ptr& error, const std::string& who) {
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
