// SPDX-License-Identifier: Apache-2.0
//
// The signals by which a scheduler or a person asks a run to save and stop.
#pragma once

namespace topknot::cli {

/// From now on USR1, TERM and INT ask to stop rather than end the process; a second INT
/// ends it.
void listen_for_stop();

/// Whether one of them has come.
bool stop_was_asked();

/// From now on the signals are also noted in this open file; in none if it is negative.
void note_stop_in(int file);

}  // namespace topknot::cli
